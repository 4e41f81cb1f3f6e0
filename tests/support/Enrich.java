import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;

/** Copies records from one topic to another, with their headers, and does some work on each. */
public class Enrich {
    public static void main(String[] args) {
        Map<String, Object> common = Map.of("bootstrap.servers", System.getenv("KAFKA_BOOTSTRAP_SERVERS"));
        Map<String, Object> reading = new HashMap<>(common);
        reading.put("group.id", args[0]);
        reading.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        reading.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        reading.put("auto.offset.reset", "earliest");
        Map<String, Object> writing = new HashMap<>(common);
        writing.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        writing.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        long sum = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reading);
                KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(writing)) {
            consumer.subscribe(List.of(args[1]));
            while (true) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(50))) {
                    String text = Base64.getEncoder().encodeToString(one.value());
                    Map<Character, Integer> counts = new TreeMap<>();
                    for (char letter : text.toCharArray()) counts.merge(letter, 1, Integer::sum);
                    sum += counts.hashCode();
                    producer.send(new ProducerRecord<>(args[2], null, one.key(), one.value(), one.headers()));
                }
            }
        }
    }
}
