package faultline;

import java.util.concurrent.locks.LockSupport;
import org.apache.flink.table.functions.ScalarFunction;

/**
 * A condition that always holds, and lets so many records through in a second: the declared speed
 * of a source task. It saves up no time, so work that is done again takes as long as the first time.
 * Markers (empty records) pass at once.
 */
public final class Paced extends ScalarFunction {
    private static final long SECOND_NS = 1_000_000_000L;
    /** What a sleep that was too long may be made up for. */
    private static final long SLACK_NS = 50_000_000L;

    private transient long next;

    public Boolean eval(String value, Double perSecond) {
        if (value == null || value.isEmpty()) {
            return true;
        }
        long now = System.nanoTime();
        next = Math.max(next, now - SLACK_NS) + (long) (SECOND_NS / perSecond);
        while (next - now > 0 && !Thread.currentThread().isInterrupted()) {
            LockSupport.parkNanos(next - now);
            now = System.nanoTime();
        }
        return true;
    }

    @Override
    public boolean isDeterministic() {
        return false;
    }
}
