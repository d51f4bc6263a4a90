// The official JavaScript client at work: reads and watches until its stdin ends. See ../README.md for what it prints.

import { Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { CoreV1Api, Exec, KubeConfig, Watch } from "@kubernetes/client-node";

const [mode, kubeconfig, context, namespace, word] = process.argv.slice(2);
const config = new KubeConfig();
config.loadFromFile(kubeconfig);
config.setCurrentContext(context);
const say = (line) => process.stdout.write(`${line}\n`);

async function work() {
  const api = config.makeApiClient(CoreV1Api);
  let ended = false;
  process.stdin.on("end", () => (ended = true)).resume();
  const list = await api.listNamespacedConfigMap({ namespace, labelSelector: word });
  let version = list.metadata.resourceVersion;
  const follow = () =>
    new Watch(config).watch(
      `/api/v1/namespaces/${namespace}/configmaps`,
      { labelSelector: word, resourceVersion: version },
      (type, object) => {
        version = object.metadata.resourceVersion;
        say(`event ${type} ${object.metadata.name}`);
      },
      // The server ends a watch now and then, and the next one goes on from there.
      (error) => (ended ? undefined : error ? say(`error watch: ${error}`) : follow()),
    );
  const request = await follow();
  say("ready");
  let reads = 0;
  while (!ended) {
    try {
      await api.readNamespacedConfigMap({ name: "steady", namespace });
      reads += 1;
    } catch (error) {
      say(`error read: ${error}`);
    }
    await pause(200);
  }
  request.abort();
  say(`reads ${reads}`);
}

async function execute() {
  const out = new Writable({
    write(chunk, _encoding, done) {
      process.stdout.write(chunk, done);
    },
  });
  await new Promise((resolve, reject) => {
    new Exec(config)
      .exec(namespace, word, undefined, ["echo", "from the pod"], out, process.stderr, null, false, resolve)
      .catch(reject);
  });
}

await (mode === "work" ? work() : execute());
process.exit(0);
