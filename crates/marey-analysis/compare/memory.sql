-- The memory at the end of each step, of the device that had most allocated at the end of any step.
SELECT
    number,
    CAST(allocated_bytes AS DOUBLE) AS allocated_bytes
FROM (
    SELECT
        number,
        start_nanos,
        process_id,
        thread_id,
        device,
        allocated_bytes,
        first_value(process_id) OVER last_first AS most_process_id,
        first_value(thread_id) OVER last_first AS most_thread_id,
        first_value(device) OVER last_first AS most_device
    FROM step_memory
    WHERE device IS NOT NULL
    WINDOW last_first AS (ORDER BY allocated_bytes DESC, process_id, thread_id, device)
)
WHERE process_id = most_process_id AND thread_id = most_thread_id AND device = most_device
ORDER BY start_nanos
