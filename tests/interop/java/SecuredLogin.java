import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Collections;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A Java client of any generation at the listeners of a guarded broker.
 *
 * <pre>
 * TOPIC PROPERTIES ...
 * </pre>
 *
 * With each file of properties it produces a record and reads it in a group of its own. It prints the name of the
 * file without its ending, a tab, and `yes` or the class of what went wrong.
 */
public final class SecuredLogin {
    private static final long SECONDS = 20;

    public static void main(String[] arguments) throws Exception {
        for (int i = 1; i < arguments.length; i++) {
            Path path = Paths.get(arguments[i]);
            Properties properties = new Properties();
            try (InputStream file = Files.newInputStream(path)) {
                properties.load(file);
            }
            String name = path.getFileName().toString().replaceFirst("\\.properties$", "");
            long began = System.nanoTime();
            String said;
            try {
                said = attempt(properties, arguments[0], name);
            } catch (ExecutionException error) {
                said = error.getCause().getClass().getSimpleName();
            } catch (Exception error) {
                said = error.getClass().getSimpleName();
            }
            System.out.printf("%s\t%s\t%.1f%n", name, said, (System.nanoTime() - began) / 1e9);
        }
    }

    @SuppressWarnings("deprecation")
    private static String attempt(Properties properties, String topic, String name) throws Exception {
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("max.block.ms", "5000");
        properties.put("group.id", topic + "-" + name);
        properties.put("auto.offset.reset", "earliest");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            producer.send(new ProducerRecord<>(topic, new byte[] {1})).get(SECONDS, TimeUnit.SECONDS);
        }
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(Collections.singletonList(topic));
            long end = System.nanoTime() + SECONDS * 1_000_000_000L;
            while (System.nanoTime() < end) {
                if (!poll(consumer).isEmpty()) {
                    return "yes";
                }
            }
        }
        return "nothing was read";
    }

    /** `poll(long)` is gone since 4.0, `poll(Duration)` is there since 2.0. */
    private static org.apache.kafka.clients.consumer.ConsumerRecords<?, ?> poll(KafkaConsumer<?, ?> consumer)
        throws Exception {
        try {
            return (org.apache.kafka.clients.consumer.ConsumerRecords<?, ?>) KafkaConsumer.class
                .getMethod("poll", java.time.Duration.class).invoke(consumer, java.time.Duration.ofMillis(200));
        } catch (NoSuchMethodException old) {
            return (org.apache.kafka.clients.consumer.ConsumerRecords<?, ?>) KafkaConsumer.class
                .getMethod("poll", long.class).invoke(consumer, 200L);
        }
    }
}
