import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A consumer in a rack, which reads partition 0 from its beginning and says from which node its records come.
 *
 * <p>Arguments: bootstrap, topic, rack, counts of records. Lines out: {@code read OFFSET VALUE}; and each time so many
 * records are read {@code count COUNT}, before it {@code from NODE} (the preferred read replica, -1 for the leader) and
 * {@code received NODE BYTES} for every node that has sent anything.
 */
public final class RackConsumer {
    private RackConsumer() {}

    public static void main(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("client.rack", arguments[2]);
        properties.put("auto.offset.reset", "none");
        properties.put("enable.auto.commit", "false");
        properties.put("max.poll.records", "1");
        properties.put("retry.backoff.ms", "20");
        properties.put("reconnect.backoff.ms", "20");
        properties.put("reconnect.backoff.max.ms", "200");
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            int count = 0;
            for (int next = 3; next < arguments.length; next++) {
                int wanted = Integer.parseInt(arguments[next]);
                while (count < wanted) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                        System.out.println("read " + record.offset() + " " + record.value());
                        count++;
                    }
                }
                report(consumer.metrics());
                System.out.println("count " + count);
            }
        }
    }

    private static void report(Map<MetricName, ? extends Metric> metrics) {
        metrics.forEach((name, metric) -> {
            if (name.name().equals("preferred-read-replica")) {
                System.out.println("from " + metric.metricValue());
            } else if (name.name().equals("incoming-byte-total") && name.group().equals("consumer-node-metrics")) {
                String node = name.tags().get("node-id").substring("node-".length());
                System.out.println("received " + node + " " + ((Double) metric.metricValue()).longValue());
            }
        });
    }
}
