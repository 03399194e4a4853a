import java.io.FileReader;
import java.io.Reader;
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Produces a record to partition 0 of a topic, reads it again, and prints it: {@code PROPERTIES TOPIC VALUE}. */
public final class OneRecord {
    private OneRecord() {}

    @SuppressWarnings("deprecation") // The oldest clients have no poll(Duration).
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (Reader reader = new FileReader(arguments[0])) {
            properties.load(reader);
        }
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        long offset;
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            offset = producer.send(new ProducerRecord<>(partition.topic(), 0, null, arguments[2])).get().offset();
        }
        properties.put("enable.auto.commit", "false");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(Collections.singletonList(partition));
            consumer.seek(partition, offset);
            for (ConsumerRecord<String, String> record : consumer.poll(30_000)) {
                System.out.println(record.value());
            }
        }
    }
}
