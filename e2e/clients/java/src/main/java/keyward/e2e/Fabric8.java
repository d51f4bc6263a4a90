package keyward.e2e;

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.ExecWatch;
import java.nio.file.Files;
import java.nio.file.Path;

/** fabric8's Java client at work. See ../../../../../../README.md for what it prints. */
final class Fabric8 {
  private static volatile boolean ended;

  public static void main(String[] args) throws Exception {
    String namespace = args[3];
    String word = args[4];
    Config config = Config.fromKubeconfig(args[2], Files.readString(Path.of(args[1])), args[1]);
    try (KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build()) {
      if (args[0].equals("exec")) {
        try (ExecWatch exec =
            client.pods().inNamespace(namespace).withName(word).writingOutput(System.out).exec("echo", "from the pod")) {
          System.exit(exec.exitCode().get());
        }
      }
      String label = word.substring(0, word.indexOf('='));
      String value = word.substring(label.length() + 1);
      String version =
          client.configMaps().inNamespace(namespace).withLabel(label, value).list().getMetadata().getResourceVersion();
      client.configMaps().inNamespace(namespace).withLabel(label, value).withResourceVersion(version).watch(new Printer());
      Work.say("ready");
      int reads = Work.until(() -> client.configMaps().inNamespace(namespace).withName("steady").require());
      ended = true;
      Work.say("reads " + reads);
    }
    System.exit(0);
  }

  private static final class Printer implements Watcher<ConfigMap> {
    @Override
    public void eventReceived(Action action, ConfigMap map) {
      Work.say("event " + action + " " + map.getMetadata().getName());
    }

    @Override
    public void onClose(WatcherException cause) {
      if (!ended) {
        Work.say("error watch: " + cause);
      }
    }
  }
}
