package faultline;

import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;

/** Word count in hopping windows, one final result per window and word. */
public final class WordCount {
    /** Words of a line, each with the number of the partition that the line was in. */
    static final class Split extends ContextualProcessor<byte[], byte[], String, Integer> {
        @Override
        public void process(Record<byte[], byte[]> record) {
            int partition = context().recordMetadata().orElseThrow().partition();
            byte[] line = record.value();
            if (line == null || line.length == 0) {
                context().forward(record.withKey(Runner.MARKER).withValue(partition));
                return;
            }
            String text = new String(line, StandardCharsets.UTF_8);
            for (String word : text.split("[^A-Za-z0-9_]+")) {
                if (!word.isEmpty()) {
                    String lower = word.toLowerCase(Locale.ROOT);
                    context().forward(record.withKey(lower).withValue(partition));
                }
            }
        }
    }

    private static StreamsBuilder build(Properties own) {
        StreamsBuilder builder = new StreamsBuilder();
        Runner.counts(builder, own, Split::new)
                .toStream()
                .filter((window, count) -> !window.key().equals(Runner.MARKER))
                .map(
                        (window, count) ->
                                KeyValue.pair(
                                        window.key(),
                                        "{\"window_start\":" + window.window().start()
                                                + ",\"word\":\"" + window.key()
                                                + "\",\"count\":" + count + "}"))
                .to(own.getProperty("faultline.out"), Produced.with(Serdes.String(), Serdes.String()));
        return builder;
    }

    public static void main(String[] arguments) throws Exception {
        Runner.run(arguments, WordCount::build);
    }
}
