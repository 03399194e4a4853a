import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Apache Kafka's consumer performance test with its consumer assigned all partitions instead of joining a group.
 * The tool takes a factory for its consumer; this one answers subscribe with an assignment.
 */
public final class AssignedConsumerPerformance {
    public static void main(String[] arguments) throws Exception {
        Function<Properties, Consumer<byte[], byte[]>> factory = AssignedConsumerPerformance::consumer;
        Method run = Class.forName("org.apache.kafka.tools.ConsumerPerformance")
            .getDeclaredMethod("run", String[].class, Function.class);
        run.setAccessible(true);
        run.invoke(null, arguments, factory);
    }

    @SuppressWarnings("unchecked")
    private static Consumer<byte[], byte[]> consumer(Properties properties) {
        properties.remove("group.id");
        properties.put("enable.auto.commit", "false");
        Consumer<byte[], byte[]> real =
            new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        return (Consumer<byte[], byte[]>) Proxy.newProxyInstance(
            AssignedConsumerPerformance.class.getClassLoader(),
            new Class<?>[] {Consumer.class},
            (proxy, method, given) -> {
                if (method.getName().equals("subscribe")) {
                    return assign(real, (Collection<String>) given[0], (ConsumerRebalanceListener) given[1]);
                }
                if (method.getName().startsWith("commit")) {
                    return null;
                }
                try {
                    return method.invoke(real, given);
                } catch (InvocationTargetException wrapped) {
                    throw wrapped.getCause();
                }
            });
    }

    private static Object assign(
        Consumer<byte[], byte[]> consumer, Collection<String> topics, ConsumerRebalanceListener listener) {
        List<TopicPartition> all = topics.stream()
            .flatMap(topic -> consumer.partitionsFor(topic).stream())
            .map(info -> new TopicPartition(info.topic(), info.partition()))
            .collect(Collectors.toList());
        consumer.assign(all);
        consumer.seekToBeginning(all);
        listener.onPartitionsAssigned(all);
        return null;
    }
}
