import java.io.IOException;

/** Ends this process at once when the one that started it is gone: the pipe of the standard input then closes. */
final class ParentWatch {
  private ParentWatch() {}

  static void start() {
    Thread watch = new Thread(ParentWatch::waitAndEnd, "parent-watch");
    watch.setDaemon(true);
    watch.start();
  }

  private static void waitAndEnd() {
    try {
      while (System.in.read() >= 0) {}
    } catch (IOException closed) {
      // as good as the end
    }
    Runtime.getRuntime().halt(0);
  }
}
