import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.Certificate;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.SslConfigs;
import org.apache.kafka.common.security.ssl.DefaultSslEngineFactory;

/**
 * Tells what Kafka makes of {@code ssl.} properties: which certificates it shows, and whom it trusts.
 *
 * <p>A request is a line: a properties file in base64. The answer is a line: {@code refused}, or two lists of
 * SHA-256 digests, the chain of the key and the trusted certificates, each {@code -} if there is none.
 */
public final class StoreOracle {
    private StoreOracle() {}

    public static void main(String[] arguments) throws IOException {
        ConfigDef definitions = new ConfigDef();
        SslConfigs.addClientSslSupport(definitions);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(answer(definitions, new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8)));
        }
    }

    private static String answer(ConfigDef definitions, String text) {
        try (DefaultSslEngineFactory factory = new DefaultSslEngineFactory()) {
            Properties properties = new Properties();
            properties.load(new StringReader(text));
            Map<String, String> given = new HashMap<>();
            properties.stringPropertyNames().forEach(name -> given.put(name, properties.getProperty(name)));
            factory.configure(definitions.parse(given));
            factory.createClientSslEngine("localhost", 9092, "https");
            return chain(factory.keystore()) + " " + trusted(factory.truststore());
        } catch (Exception refused) {
            return "refused";
        }
    }

    private static String chain(KeyStore store) throws Exception {
        List<String> digests = new ArrayList<>();
        for (String alias : store == null ? List.<String>of() : Collections.list(store.aliases())) {
            if (store.isKeyEntry(alias)) {
                for (Certificate certificate : store.getCertificateChain(alias)) {
                    digests.add(digest(certificate));
                }
            }
        }
        return digests.isEmpty() ? "-" : String.join(",", digests);
    }

    private static String trusted(KeyStore store) throws Exception {
        List<String> digests = new ArrayList<>();
        if (store != null) {
            TrustManagerFactory factory = TrustManagerFactory.getInstance("PKIX");
            factory.init(store);
            for (TrustManager manager : factory.getTrustManagers()) {
                for (X509Certificate certificate : ((X509TrustManager) manager).getAcceptedIssuers()) {
                    digests.add(digest(certificate));
                }
            }
        }
        Collections.sort(digests);
        return digests.isEmpty() ? "-" : String.join(",", digests);
    }

    private static String digest(Certificate certificate) throws Exception {
        StringBuilder text = new StringBuilder();
        for (byte each : MessageDigest.getInstance("SHA-256").digest(certificate.getEncoded())) {
            text.append(String.format("%02x", each));
        }
        return text.toString();
    }
}
