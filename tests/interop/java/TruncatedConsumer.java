import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A consumer that reads partition 0 from its beginning until it learns that what it has read is not there any more.
 *
 * <p>Arguments: bootstrap, topic. Lines out: {@code read OFFSET VALUE}, and at the end {@code truncated OFFSET}, the
 * offset from which on the log became another one.
 */
public final class TruncatedConsumer {
    private TruncatedConsumer() {}

    public static void main(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("auto.offset.reset", "none");
        properties.put("enable.auto.commit", "false");
        properties.put("metadata.max.age.ms", "200");
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            while (true) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    System.out.println("read " + record.offset() + " " + record.value());
                }
            }
        } catch (LogTruncationException error) {
            System.out.println("truncated " + error.divergentOffsets().get(partition).offset());
        }
    }
}
