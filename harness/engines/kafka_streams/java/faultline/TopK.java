package faultline;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The most requested objects of each hopping window, a result per window.
 *
 * <p>One task counts, as the topology of tasks has one merger for few partitions. Its windows close
 * in order, so the first count of a window says that the one before has all of its counts. Markers
 * give every window one.
 */
public final class TopK {
    private static final String STORE = "top";

    /** The object of a request, with the number of the partition that it was in. */
    static final class Objects extends ContextualProcessor<byte[], byte[], String, Integer> {
        private final int length;
        private final int offset;

        Objects(Properties own) {
            length = Integer.parseInt(own.getProperty("faultline.record.bytes"));
            offset = Integer.parseInt(own.getProperty("faultline.object.offset"));
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            int partition = context().recordMetadata().orElseThrow().partition();
            byte[] request = record.value();
            boolean whole = request != null && request.length == length;
            String key =
                    whole
                            ? Long.toString(ByteBuffer.wrap(request).getInt(offset) & 0xFFFFFFFFL)
                            : Runner.MARKER;
            context().forward(record.withKey(key).withValue(partition));
        }
    }

    /** Keeps the counts of windows that have closed, until the next one has. */
    static final class Top extends ContextualProcessor<Windowed<String>, Long, String, String> {
        private final int number;
        private KeyValueStore<String, Long> store;
        private long last = -1;

        Top(Properties own) {
            number = Integer.parseInt(own.getProperty("faultline.top"));
        }

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            store = context.getStateStore(STORE);
        }

        @Override
        public void process(Record<Windowed<String>, Long> record) {
            long start = record.key().window().start();
            if (start != last) {
                try (KeyValueIterator<String, Long> before = store.range("", place(start, ""))) {
                    give(before, record);
                }
                last = start;
            }
            if (!record.key().key().equals(Runner.MARKER)) {
                store.put(place(start, record.key().key()), record.value());
            }
        }

        private void give(
                KeyValueIterator<String, Long> before, Record<Windowed<String>, Long> record) {
            List<KeyValue<Long, Long>> counts = new ArrayList<>();
            String window = null;
            while (before.hasNext()) {
                KeyValue<String, Long> each = before.next();
                String[] parts = each.key.split(" ");
                if (window != null && !window.equals(parts[0])) {
                    context().forward(record.withKey(window).withValue(result(window, counts)));
                    counts.clear();
                }
                window = parts[0];
                counts.add(KeyValue.pair(Long.parseLong(parts[1]), each.value));
                store.delete(each.key);
            }
            if (window != null) {
                context().forward(record.withKey(window).withValue(result(window, counts)));
            }
        }

        private String result(String window, List<KeyValue<Long, Long>> counts) {
            Comparator<KeyValue<Long, Long>> least = Comparator.comparing(each -> -each.value);
            String top =
                    counts.stream()
                            .sorted(least.thenComparing(each -> each.key))
                            .limit(number)
                            .map(each -> each.key + ":" + each.value)
                            .collect(Collectors.joining(" "));
            return "{\"window_start\":" + Long.parseLong(window) + ",\"top\":\"" + top + "\"}";
        }

        /** Keys are in the order of windows. */
        private static String place(long start, String object) {
            return String.format("%016d %s", start, object);
        }
    }

    private static StreamsBuilder build(Properties own) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(
                Stores.keyValueStoreBuilder(
                        Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.Long()));
        Runner.counts(builder, own, () -> new Objects(own))
                .toStream()
                .process(() -> new Top(own), STORE)
                .to(own.getProperty("faultline.out"), Produced.with(Serdes.String(), Serdes.String()));
        return builder;
    }

    public static void main(String[] arguments) throws Exception {
        Runner.run(arguments, TopK::build);
    }
}
