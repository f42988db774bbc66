SELECT
    name(group_id) AS process_group,
    name(group_ranks_id) AS group_ranks,
    group_size,
    count,
    complete_count,
    ambiguous_count,
    last_count,
    100 * CAST(last_count AS DOUBLE) / nullif(count, 0) AS last_percent,
    delay_nanos,
    mean_late_nanos,
    max_late_nanos,
    wait_nanos,
    device,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id
FROM (
    SELECT
        process_id,
        device,
        group_id,
        group_ranks_id,
        max(group_size) AS group_size,
        sum(CASE WHEN is_ambiguous THEN 0 ELSE 1 END) AS count,
        sum(CASE WHEN arrived = group_size THEN 1 ELSE 0 END) AS complete_count,
        sum(CASE WHEN is_ambiguous THEN 1 ELSE 0 END) AS ambiguous_count,
        sum(CASE WHEN position = arrived AND behind_nanos > 0 AND NOT is_ambiguous THEN 1 ELSE 0 END) AS last_count,
        sum(CASE WHEN position = arrived AND NOT is_ambiguous THEN behind_nanos ELSE 0 END) AS delay_nanos,
        avg(CASE WHEN NOT is_ambiguous THEN late_nanos END) AS mean_late_nanos,
        max(CASE WHEN NOT is_ambiguous THEN late_nanos END) AS max_late_nanos,
        sum(CASE WHEN is_ambiguous THEN 0 ELSE wait_nanos END) AS wait_nanos
    FROM internal.collective_arrivals
    WHERE arrived > 1
    GROUP BY process_id, device, group_id, group_ranks_id
)
