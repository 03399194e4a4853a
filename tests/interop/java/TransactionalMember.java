import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A member of a group that commits its offsets in transactions. Each line of input is a command:
 *
 *   join BOOTSTRAP PROTOCOL TOPIC    joins the group TOPIC as its only member, and reads a record; TOPIC is the
 *                                    transactional id, too
 *   begin, offsets POSITION, commit, abort
 *   leave                            leaves the group; the producer goes on with what it knew of the member
 *   close
 *
 * The answer is `ok`, or `refused` and the name of the exception.
 */
public final class TransactionalMember {
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    private KafkaConsumer<byte[], byte[]> consumer;
    private KafkaProducer<byte[], byte[]> producer;
    private ConsumerGroupMetadata member;
    private String topic;

    public static void main(String[] arguments) throws IOException {
        TransactionalMember program = new TransactionalMember();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String answer = "ok";
            try {
                program.perform(line.split(" "));
            } catch (RuntimeException error) {
                answer = "refused " + error.getClass().getSimpleName();
            }
            System.out.println(answer);
        }
    }

    private void perform(String[] words) {
        switch (words[0]) {
            case "join":
                join(words[1], words[2], words[3]);
                break;
            case "begin":
                producer.beginTransaction();
                break;
            case "offsets":
                producer.sendOffsetsToTransaction(
                    Collections.singletonMap(
                        new TopicPartition(topic, 0), new OffsetAndMetadata(Long.parseLong(words[1]))),
                    member);
                break;
            case "commit":
                producer.commitTransaction();
                break;
            case "abort":
                producer.abortTransaction();
                break;
            case "leave":
                consumer.close();
                break;
            case "close":
                producer.close(Duration.ZERO);
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private void join(String bootstrap, String protocol, String name) {
        topic = name;
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", name);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        if (!protocol.equals("classic")) {
            settings.put("group.protocol", protocol);
        }
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(Collections.singleton(name));
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("no record came");
            }
        }
        member = consumer.groupMetadata();
        Map<String, Object> own = new HashMap<>();
        own.put("bootstrap.servers", bootstrap);
        own.put("transactional.id", name);
        producer = new KafkaProducer<>(own, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
    }
}
