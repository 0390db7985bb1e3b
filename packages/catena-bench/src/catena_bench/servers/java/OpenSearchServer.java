import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.ServiceLoader;
import org.codelibs.opensearch.runner.node.OpenSearchRunnerNode;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.painless.PainlessModulePlugin;
import org.opensearch.plugins.ExtensiblePlugin.ExtensionLoader;
import org.opensearch.plugins.Plugin;

/**
 * Runs one OpenSearch node until its standard input closes.
 *
 * <p>Usage: OpenSearchServer HOME CONFIG PLUGIN... HOME may hold {@code plugins/}, one folder per installed plugin;
 * CONFIG holds {@code opensearch.yml}; each PLUGIN is a class on the class path. The runner's own main puts all nodes
 * into one process, where none can be killed alone.
 */
public final class OpenSearchServer {
  private OpenSearchServer() {}

  public static void main(String[] args) throws Exception {
    ParentWatch.start();
    Path home = Path.of(args[0]);
    Path config = Path.of(args[1]);
    List<Class<? extends Plugin>> plugins = new ArrayList<>();
    for (int i = 2; i < args.length; i++) {
      plugins.add(Class.forName(args[i]).asSubclass(Plugin.class));
    }
    // what a script may call is kept per process; the server looks for it in plugin folders only
    new PainlessModulePlugin().loadExtensions(new OnClassPath());
    Settings settings =
        Settings.builder().loadFromPath(config.resolve("opensearch.yml")).put("path.home", home.toString()).build();
    new OpenSearchRunnerNode(new Environment(settings, config), plugins).start();
    Thread.currentThread().join();
  }

  /** Finds what plugins on the class path add to others, as the functions on vectors that k-NN adds to scripts. */
  private static final class OnClassPath implements ExtensionLoader {
    @Override
    public <T> List<T> loadExtensions(Class<T> kind) {
      return ServiceLoader.load(kind).stream().map(ServiceLoader.Provider::get).toList();
    }
  }
}
