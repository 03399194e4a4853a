import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A producer that logs in as a file of properties says, and sends records one after another for some time.
 *
 * <pre>
 * PROPERTIES TOPIC MILLISECONDS
 * </pre>
 *
 * It prints how many records were acknowledged, or the class and message of what went wrong.
 */
public final class LoginClient {
    private static final long PAUSE_MS = 20;

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (InputStream file = Files.newInputStream(Paths.get(arguments[0]))) {
            properties.load(file);
        }
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        System.out.println(said(properties, arguments[1], Long.parseLong(arguments[2])));
    }

    private static String said(Properties properties, String topic, long millis) throws InterruptedException {
        long end = System.nanoTime() + millis * 1_000_000;
        int sent = 0;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            do {
                producer.send(new ProducerRecord<>(topic, new byte[] {1})).get();
                sent++;
                Thread.sleep(PAUSE_MS);
            } while (System.nanoTime() < end);
            return "sent " + sent;
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName() + ": " + error.getCause().getMessage();
        } catch (RuntimeException error) {
            return error.getClass().getSimpleName() + ": " + error.getMessage();
        }
    }
}
