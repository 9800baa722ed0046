package faultline;

import java.io.FileInputStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.StreamsMetadata;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.internals.DefaultKafkaClientSupplier;

/**
 * What the programs share: counts of keys in hopping windows, and an instance that reports events.
 *
 * <p>Kafka Streams has no watermark that crosses a repartition topic: a window closes by the newest
 * record that its task has seen, and max.task.idle.ms lets a task wait for the slower one of its
 * partitions, which are of different topics. So the keys go through one repartition topic, as
 * groupBy makes it, unless the counting task is to wait: then each input partition has one of its
 * own. A marker (an empty record) goes to every partition, and is counted as the key
 * {@link #MARKER}.
 *
 * <p>Prints a line of JSON for each event that no one outside sees.
 */
final class Runner {
    static final String MARKER = "";
    private static final long OPEN_MS = 1_000;
    private static final long LOOK_MS = 200;

    private Runner() {}

    /** Counts the keys of a program, which come with the number of their input partition. */
    static KTable<Windowed<String>, Long> counts(
            StreamsBuilder builder,
            Properties own,
            ProcessorSupplier<byte[], byte[], String, Integer> keys) {
        int inputs = Integer.parseInt(own.getProperty("faultline.in.partitions"));
        int counters = Integer.parseInt(own.getProperty("faultline.counters"));
        KStream<String, Integer> found =
                builder.stream(
                                own.getProperty("faultline.in"),
                                Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
                        .process(keys);
        if (!Boolean.parseBoolean(own.getProperty("faultline.waits"))) {
            return counted(through(found, "keys", counters), own);
        }
        KStream<String, Integer> together = null;
        for (int each = 0; each < inputs; each++) {
            int partition = each;
            KStream<String, Integer> mine =
                    through(
                            found.filter((key, from) -> from == partition),
                            "from-" + partition,
                            counters);
            together = together == null ? mine : together.merge(mine);
        }
        return counted(together, own);
    }

    private static KStream<String, Integer> through(
            KStream<String, Integer> keys, String topic, int counters) {
        return keys.repartition(
                Repartitioned.with(Serdes.String(), Serdes.Integer())
                        .withName(topic)
                        .withNumberOfPartitions(counters)
                        .withStreamPartitioner((name, key, from, all) -> place(key, all)));
    }

    private static KTable<Windowed<String>, Long> counted(
            KStream<String, Integer> keys, Properties own) {
        return keys.groupByKey(Grouped.with(Serdes.String(), Serdes.Integer()))
                .windowedBy(
                        TimeWindows.ofSizeAndGrace(
                                        millis(own, "faultline.window.ms"),
                                        millis(own, "faultline.grace.ms"))
                                .advanceBy(millis(own, "faultline.slide.ms")))
                .count(Materialized.with(Serdes.String(), Serdes.Long()))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()));
    }

    private static Optional<Set<Integer>> place(String key, int partitions) {
        Set<Integer> chosen = new HashSet<>();
        if (key.equals(MARKER)) {
            for (int each = 0; each < partitions; each++) {
                chosen.add(each);
            }
        } else {
            byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
            chosen.add(Utils.toPositive(Utils.murmur2(bytes)) % partitions);
        }
        return Optional.of(chosen);
    }

    private static Duration millis(Properties own, String name) {
        return Duration.ofMillis(Long.parseLong(own.getProperty(name)));
    }

    private static synchronized void say(String event, String rest) {
        System.out.println(
                "{\"event\":\"" + event + "\",\"at_ms\":" + System.currentTimeMillis() + rest + "}");
        System.out.flush();
    }

    /** Reports the values of the settings with these names, of those that this part knows. */
    private static void report(String part, Set<String> names, AbstractConfig config) {
        String values =
                config.values().entrySet().stream()
                        .filter(each -> names.contains(each.getKey()))
                        .filter(each -> each.getValue() != null)
                        .map(each -> quoted(each.getKey()) + ":" + quoted(text(each.getValue())))
                        .sorted()
                        .collect(Collectors.joining(","));
        say("settings", ",\"part\":\"" + part + "\",\"values\":{" + values + "}");
    }

    private static String text(Object value) {
        if (value instanceof List<?> many) {
            return many.stream().map(Runner::text).collect(Collectors.joining(","));
        }
        return value instanceof Class<?> type ? type.getName() : value.toString();
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    /** The clients that Kafka Streams makes; their settings are reported as they get them. */
    static final class Reporting extends DefaultKafkaClientSupplier {
        private final Set<String> names;

        Reporting(Set<String> names) {
            this.names = names;
        }

        @Override
        public Producer<byte[], byte[]> getProducer(Map<String, Object> config) {
            Map<String, Object> whole = new HashMap<>(config);
            whole.put("key.serializer", ByteArraySerializer.class);
            whole.put("value.serializer", ByteArraySerializer.class);
            report("producer", names, new ProducerConfig(whole));
            return super.getProducer(config);
        }

        @Override
        public Consumer<byte[], byte[]> getConsumer(Map<String, Object> config) {
            Map<String, Object> whole = new HashMap<>(config);
            whole.put("key.deserializer", ByteArrayDeserializer.class);
            whole.put("value.deserializer", ByteArrayDeserializer.class);
            report("consumer", names, new ConsumerConfig(whole));
            return super.getConsumer(config);
        }
    }

    /** Restorations of stores from their changelogs. */
    static final class Restorations implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition from, String store, long start, long end) {
            say("restore-began", ",\"records\":" + (end - start) + named(from));
        }

        @Override
        public void onBatchRestored(TopicPartition from, String store, long end, long number) {}

        @Override
        public void onRestoreEnd(TopicPartition from, String store, long number) {
            say("restore-ended", ",\"records\":" + number + named(from));
        }

        private static String named(TopicPartition from) {
            return ",\"changelog\":\"" + from + "\"";
        }
    }

    private static Set<String> members(KafkaStreams streams) {
        Set<String> found = new TreeSet<>();
        for (StreamsMetadata each : streams.metadataForAllStreamsClients()) {
            found.add(each.host() + ":" + each.port());
        }
        return found;
    }

    /** Records that came after their window had closed, and are in no result. */
    private static long dropped(KafkaStreams streams) {
        double total = 0;
        for (Map.Entry<MetricName, ? extends Metric> each : streams.metrics().entrySet()) {
            if (each.getKey().name().equals("dropped-records-total")) {
                total += (Double) each.getValue().metricValue();
            }
        }
        return (long) total;
    }

    /**
     * Reports transactions that are open for longer than commits are apart, as the broker lists them:
     * those of a dead instance hold up whoever reads what it wrote, also between two tasks.
     */
    private static void watchTransactions(Properties client) {
        ListTransactionsOptions old = new ListTransactionsOptions().filterOnDuration(OPEN_MS);
        String known = "";
        try (Admin admin = Admin.create(client)) {
            while (true) {
                Thread.sleep(LOOK_MS);
                String now =
                        admin.listTransactions(old).all().get().stream()
                                .map(TransactionListing::transactionalId)
                                .sorted()
                                .collect(Collectors.joining(" "));
                if (!now.equals(known)) {
                    say("transactions", ",\"open\":\"" + now + "\"");
                    known = now;
                }
            }
        } catch (InterruptedException | ExecutionException error) {
            error.printStackTrace();
        }
    }

    /** Sets the group's number of standbys: the new protocol ignores the client's. */
    private static void standbys(Properties client) throws Exception {
        String number = client.getProperty("num.standby.replicas");
        ConfigResource group =
                new ConfigResource(
                        ConfigResource.Type.GROUP, client.getProperty("application.id"));
        AlterConfigOp set =
                new AlterConfigOp(
                        new ConfigEntry("streams.num.standby.replicas", number),
                        AlterConfigOp.OpType.SET);
        try (Admin admin = Admin.create(client)) {
            admin.incrementalAlterConfigs(Map.of(group, List.of(set))).all().get();
        }
    }

    /** Runs an instance until it fails or is ended. */
    static void run(String[] arguments, Function<Properties, StreamsBuilder> build)
            throws Exception {
        Properties own = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            own.load(file);
        }
        Properties client = new Properties();
        for (Map.Entry<Object, Object> each : own.entrySet()) {
            if (!each.getKey().toString().startsWith("faultline.")) {
                client.put(each.getKey(), each.getValue());
            }
        }
        // Nothing listens there: it tells the incarnations of a node apart in the group's metadata.
        long pid = ProcessHandle.current().pid();
        client.put("application.server", own.getProperty("faultline.node") + ":" + (pid % 65000 + 1));
        if (client.getProperty("group.protocol").equals("streams")) {
            standbys(client);
        }
        Set<String> names = Set.of(own.getProperty("faultline.report").split(","));
        say(
                "java",
                ",\"options\":"
                        + quoted(
                                String.join(
                                        " ",
                                        ManagementFactory.getRuntimeMXBean().getInputArguments())));
        report("streams", names, new StreamsConfig(client));
        KafkaStreams streams =
                new KafkaStreams(build.apply(own).build(), client, new Reporting(names));
        CountDownLatch ended = new CountDownLatch(1);
        streams.setGlobalStateRestoreListener(new Restorations());
        streams.setStateListener(
                (to, from) -> {
                    say("state", ",\"to\":\"" + to + "\",\"from\":\"" + from + "\"");
                    if (to == KafkaStreams.State.ERROR || to == KafkaStreams.State.NOT_RUNNING) {
                        ended.countDown();
                    }
                });
        streams.setUncaughtExceptionHandler(
                error -> {
                    error.printStackTrace();
                    return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse
                            .SHUTDOWN_CLIENT;
                });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
        streams.start();
        if (client.getProperty("processing.guarantee").startsWith("exactly")) {
            Thread watch = new Thread(() -> watchTransactions(client), "transactions");
            watch.setDaemon(true);
            watch.start();
        }
        Set<String> known = new TreeSet<>();
        long lost = 0;
        for (long look = 1; !ended.await(50, TimeUnit.MILLISECONDS); look++) {
            long late = look % 20 == 0 ? dropped(streams) : lost;
            if (late != lost) {
                say("dropped", ",\"records\":" + Math.max(0, late - lost));
                lost = late;
            }
            Set<String> now = members(streams);
            if (!now.equals(known)) {
                say("members", ",\"hosts\":\"" + String.join(" ", now) + "\"");
                known = now;
            }
        }
        System.exit(1);
    }
}
