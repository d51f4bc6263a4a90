package keyward.e2e;

import io.kubernetes.client.Exec;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.util.ClientBuilder;
import io.kubernetes.client.util.KubeConfig;
import io.kubernetes.client.util.Watch;
import java.io.FileReader;
import java.lang.reflect.Type;
import java.time.Duration;

/** The official Java client at work. See ../../../../../../README.md for what it prints. */
final class Official {
  private static volatile boolean ended;

  public static void main(String[] args) throws Exception {
    String namespace = args[3];
    String word = args[4];
    KubeConfig config = KubeConfig.loadKubeConfig(new FileReader(args[1]));
    config.setContext(args[2]);
    ApiClient client = ClientBuilder.kubeconfig(config).setReadTimeout(Duration.ZERO).build();
    if (args[0].equals("exec")) {
      Process process = new Exec(client).exec(namespace, word, new String[] {"echo", "from the pod"}, false, false);
      process.getInputStream().transferTo(System.out);
      process.waitFor();
      System.exit(process.exitValue());
    }
    CoreV1Api api = new CoreV1Api(client);
    String version =
        api.listNamespacedConfigMap(namespace).labelSelector(word).execute().getMetadata().getResourceVersion();
    Thread watch = new Thread(() -> follow(client, api, namespace, word, version));
    watch.setDaemon(true);
    watch.start();
    say("ready");
    int reads = Work.until(() -> api.readNamespacedConfigMap("steady", namespace).execute());
    ended = true;
    say("reads " + reads);
    System.exit(0);
  }

  private static void follow(ApiClient client, CoreV1Api api, String namespace, String word, String version) {
    Type type = com.google.gson.reflect.TypeToken.getParameterized(Watch.Response.class, V1ConfigMap.class).getType();
    String from = version;
    // The server ends a watch now and then, and the next one goes on from there.
    while (!ended) {
      try (Watch<V1ConfigMap> events =
          Watch.createWatch(
              client,
              api.listNamespacedConfigMap(namespace).labelSelector(word).resourceVersion(from).watch(true).buildCall(null),
              type)) {
        for (Watch.Response<V1ConfigMap> event : events) {
          from = event.object.getMetadata().getResourceVersion();
          say("event " + event.type + " " + event.object.getMetadata().getName());
        }
      } catch (Exception error) {
        if (!ended) {
          say("error watch: " + error);
        }
      }
    }
  }

  private static void say(String line) {
    Work.say(line);
  }
}
