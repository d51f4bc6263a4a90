package keyward.e2e;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** What both clients do beside their watch. */
final class Work {
  /** A request that may fail. */
  interface Read {
    Object run() throws Exception;
  }

  /** Reads five times a second until stdin ends; how often that went well. */
  static int until(Read read) throws InterruptedException {
    CountDownLatch ended = new CountDownLatch(1);
    Thread input =
        new Thread(
            () -> {
              try {
                System.in.readAllBytes();
              } catch (java.io.IOException gone) {
                // Nobody is there any more: the end, too.
              }
              ended.countDown();
            });
    input.setDaemon(true);
    input.start();
    int reads = 0;
    while (!ended.await(200, TimeUnit.MILLISECONDS)) {
      try {
        read.run();
        reads += 1;
      } catch (Exception error) {
        say("error read: " + error);
      }
    }
    return reads;
  }

  static synchronized void say(String line) {
    System.out.println(line);
  }
}
