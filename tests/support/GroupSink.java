import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;

/** An application that takes a known time for each record and commits at a known interval, in any kind of group. */
public class GroupSink {
    private static final Duration POLL = Duration.ofMillis(10);
    private static long delayNs;
    private static final CountDownLatch closed = new CountDownLatch(1);
    private static long doneNs;

    public static void main(String[] given) throws Exception {
        String protocol = given[0];
        String topic = given[1];
        String group = given[2];
        delayNs = (long) (Double.parseDouble(given[3]) * 1e6);
        long commitMs = Long.parseLong(given[4]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", System.getenv("KAFKA_BOOTSTRAP_SERVERS"));
        switch (protocol) {
            case "share" -> share(properties, topic, group, commitMs);
            case "streams" -> streams(properties, topic, group, commitMs);
            default -> consume(properties, topic, group, commitMs, protocol);
        }
    }

    /** Take the time of one record: from its creation, or from the end of the record before it. */
    private static void work(long createdMs) {
        doneNs = Math.max(doneNs, createdMs * 1_000_000) + delayNs;
        long leftNs = doneNs - System.currentTimeMillis() * 1_000_000;
        if (leftNs > 0) {
            try {
                Thread.sleep(leftNs / 1_000_000, (int) (leftNs % 1_000_000));
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    /** Interrupt the consumer at SIGTERM, and wait until it has left its group. */
    private static void closing(Runnable wakeup) {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            wakeup.run();
            try {
                closed.await(5, TimeUnit.SECONDS);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
    }

    private static void consume(Properties properties, String topic, String group, long commitMs, String protocol) {
        properties.put("group.id", group);
        properties.put("group.protocol", protocol);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            closing(consumer::wakeup);
            consumer.subscribe(List.of(topic));
            Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
            long nextMs = System.currentTimeMillis() + commitMs;
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    work(record.timestamp());
                    done.put(new TopicPartition(topic, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                    if (System.currentTimeMillis() >= nextMs) {
                        consumer.commitSync(done);
                        done.clear();
                        nextMs = System.currentTimeMillis() + commitMs;
                    }
                }
                if (System.currentTimeMillis() >= nextMs && !done.isEmpty()) {
                    consumer.commitSync(done);
                    done.clear();
                    nextMs = System.currentTimeMillis() + commitMs;
                }
            }
        } catch (WakeupException error) {
            closed.countDown();
        }
    }

    private static void share(Properties properties, String topic, String group, long commitMs) throws Exception {
        try (Admin admin = Admin.create(properties)) {
            var resource = new ConfigResource(ConfigResource.Type.GROUP, group);
            var earliest = new AlterConfigOp(
                    new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(earliest))).all().get();
        }
        properties.put("group.id", group);
        properties.put("share.acknowledgement.mode", "explicit");
        try (var consumer =
                new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            closing(consumer::wakeup);
            consumer.subscribe(List.of(topic));
            long nextMs = System.currentTimeMillis() + commitMs;
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    work(record.timestamp());
                    consumer.acknowledge(record);
                    if (System.currentTimeMillis() >= nextMs) {
                        consumer.commitSync();
                        nextMs = System.currentTimeMillis() + commitMs;
                    }
                }
                if (System.currentTimeMillis() >= nextMs) {
                    consumer.commitSync();
                    nextMs = System.currentTimeMillis() + commitMs;
                }
            }
        } catch (WakeupException error) {
            closed.countDown();
        }
    }

    private static void streams(Properties properties, String topic, String group, long commitMs) {
        properties.put("application.id", group);
        properties.put("group.protocol", "streams");
        properties.put("commit.interval.ms", commitMs);
        properties.put("consumer.auto.offset.reset", "earliest");
        properties.put("state.dir", System.getProperty("java.io.tmpdir") + "/" + group);
        properties.put("default.key.serde", Serdes.ByteArray().getClass());
        properties.put("default.value.serde", Serdes.ByteArray().getClass());
        StreamsBuilder builder = new StreamsBuilder();
        builder.<byte[], byte[]>stream(topic).process(() -> new ContextualProcessor<byte[], byte[], Void, Void>() {
            @Override
            public void process(Record<byte[], byte[]> record) {
                work(record.timestamp());
            }
        });
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
        streams.start();
    }
}
