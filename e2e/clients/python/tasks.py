"""The asyncio Python client at work: reads and watches until its stdin ends. See ../README.md for what it prints."""

import asyncio
import sys

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.stream import WsApiClient

mode, kubeconfig, context, namespace, word = sys.argv[1:6]


def say(line):
    print(line, flush=True)


async def follow(api, version):
    events = watch.Watch().stream(
        api.list_namespaced_config_map, namespace, label_selector=word, resource_version=version
    )
    try:
        async for event in events:
            say(f"event {event['type']} {event['object'].metadata.name}")
    except asyncio.CancelledError:
        raise
    except Exception as error:  # Whatever it is, the step has to know.
        say(f"error watch: {error!r}")


async def work(api):
    seen = await api.list_namespaced_config_map(namespace, label_selector=word)
    task = asyncio.create_task(follow(api, seen.metadata.resource_version))
    say("ready")
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    reads = 0
    while not ended.done():
        await asyncio.wait([ended], timeout=0.2)
        try:
            await api.read_namespaced_config_map("steady", namespace)
            reads += 1
        except Exception as error:
            say(f"error read: {error!r}")
    task.cancel()
    say(f"reads {reads}")


async def execute(connection):
    api = client.CoreV1Api(connection)
    print(
        await api.connect_get_namespaced_pod_exec(
            word, namespace, command=["echo", "from the pod"], stdin=False, stdout=True, stderr=True, tty=False
        ),
        end="",
    )


async def main():
    settings = client.Configuration()
    await config.load_kube_config(config_file=kubeconfig, context=context, client_configuration=settings)
    if mode == "work":
        async with client.ApiClient(settings) as connection:
            await work(client.CoreV1Api(connection))
    else:
        async with WsApiClient(settings) as connection:
            await execute(connection)


asyncio.run(main())
