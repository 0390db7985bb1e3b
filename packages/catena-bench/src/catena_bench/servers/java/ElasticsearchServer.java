import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

/**
 * Runs one Elasticsearch node until its standard input closes.
 *
 * <p>Usage: ElasticsearchServer HOME CONFIG. HOME holds {@code modules/}, one folder per module with its jars and its
 * {@code plugin-descriptor.properties}; CONFIG holds {@code elasticsearch.yml}. Written for tests: no keystore, no
 * bootstrap checks, no entitlements.
 */
public final class ElasticsearchServer {
  private ElasticsearchServer() {}

  public static void main(String[] args) throws Exception {
    ParentWatch.start();
    Path home = Path.of(args[0]);
    Path config = Path.of(args[1]);
    Settings settings =
        Settings.builder().loadFromPath(config.resolve("elasticsearch.yml")).put("path.home", home.toString()).build();
    LogConfigurator.configureESLogging();
    Environment environment = new Environment(settings, config);
    PluginsLoader modules =
        PluginsLoader.createPluginsLoader(
            PluginsLoader.loadModulesBundles(environment.modulesDir(), false), Set.of(), Map.of(), false);
    new Node(environment, modules).start();
    Thread.currentThread().join();
  }
}
