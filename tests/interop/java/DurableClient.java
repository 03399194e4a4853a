import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An idempotent producer with acks=all and a consumer, which say of every record that it was acknowledged or read.
 *
 * <p>Arguments: bootstrap, topic, partitions, records per second. Records have the values {@code java:0},
 * {@code java:1}, ... in each partition. Lines out: {@code acked PARTITION OFFSET VALUE}, {@code read PARTITION OFFSET
 * VALUE}, {@code expired PARTITION VALUE}, {@code failed REASON}; {@code ready} when each partition has its first
 * record; {@code flushed} once the line {@code stop} has come in and every record has its answer. The end of standard
 * input ends the program.
 */
public final class DurableClient {
    private static final int TICK_MS = 20;
    private static PrintStream lines;
    private static volatile boolean stopping;

    public static void main(String[] arguments) throws Exception {
        lines = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        int perTick = Math.max(1, Integer.parseInt(arguments[3]) * TICK_MS / 1000);
        Thread consumer = new Thread(() -> consume(arguments[0], topic, partitions));
        Thread producer = new Thread(() -> produce(arguments[0], topic, partitions, perTick));
        consumer.setDaemon(true);
        producer.setDaemon(true);
        producer.start();
        consumer.start();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            stopping = true;
        }
        Runtime.getRuntime().halt(0);
    }

    private static void produce(String bootstrap, String topic, int partitions, int perTick) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("acks", "all");
        properties.put("enable.idempotence", "true");
        properties.put("linger.ms", "2");
        properties.put("request.timeout.ms", "2000");
        properties.put("delivery.timeout.ms", "120000");
        properties.put("retry.backoff.ms", "20");
        properties.put("reconnect.backoff.ms", "20");
        properties.put("reconnect.backoff.max.ms", "200");
        properties.put("max.block.ms", "120000");
        properties.put("metadata.max.age.ms", "2000");
        long[] sent = new long[partitions];
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (int partition = 0; partition < partitions; partition++) {
                send(producer, topic, partition, sent);
            }
            producer.flush();
            print("ready");
            for (int partition = 0; !stopping; partition = (partition + 1) % partitions) {
                for (int count = 0; count < perTick; count++) {
                    send(producer, topic, partition, sent);
                }
                Thread.sleep(TICK_MS);
            }
            producer.flush();
            print("flushed");
        } catch (Exception error) {
            print("failed to produce: " + error);
        }
    }

    private static void send(KafkaProducer<String, String> producer, String topic, int partition, long[] sent) {
        String value = "java:" + sent[partition]++;
        producer.send(new ProducerRecord<>(topic, partition, null, value), (metadata, error) -> {
            if (error != null) {
                print(error instanceof TimeoutException
                        ? "expired " + partition + " " + value
                        : "failed to produce " + value + ": " + error);
            } else {
                print("acked " + metadata.partition() + " " + metadata.offset() + " " + value);
            }
        });
    }

    private static void consume(String bootstrap, String topic, int partitions) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("auto.offset.reset", "none");
        properties.put("enable.auto.commit", "false");
        properties.put("fetch.max.wait.ms", "100");
        properties.put("request.timeout.ms", "2000");
        properties.put("default.api.timeout.ms", "120000");
        properties.put("reconnect.backoff.ms", "20");
        properties.put("reconnect.backoff.max.ms", "200");
        properties.put("metadata.max.age.ms", "2000");
        List<TopicPartition> assigned = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            assigned.add(new TopicPartition(topic, partition));
        }
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(assigned);
            for (TopicPartition partition : assigned) {
                consumer.seek(partition, 0);
            }
            while (true) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    print("read " + record.partition() + " " + record.offset() + " " + record.value());
                }
            }
        } catch (Exception error) {
            print("failed to consume: " + error);
        }
    }

    private static synchronized void print(String line) {
        lines.println(line);
    }

    private DurableClient() {}
}
