WITH
arrivals AS (
    SELECT
        process_id,
        device,
        group_id,
        group_ranks_id,
        sequence,
        name_id,
        max(group_size) AS group_size,
        min(start_nanos) AS start_nanos
    FROM raw.collectives
    WHERE sequence IS NOT NULL AND NOT is_p2p AND state <> 'scheduled'
    GROUP BY process_id, device, group_id, group_ranks_id, sequence, name_id
),
ordered AS (
    SELECT
        process_id,
        device,
        group_id,
        group_ranks_id,
        group_size,
        count(*) OVER instance AS arrived,
        coalesce(count(*) OVER instance > max(group_size) OVER instance, FALSE) AS is_ambiguous,
        row_number() OVER arrival AS position,
        start_nanos - lag(start_nanos) OVER arrival AS behind_nanos,
        start_nanos - min(start_nanos) OVER instance AS late_nanos,
        max(start_nanos) OVER instance - start_nanos AS wait_nanos
    FROM arrivals
    WINDOW
        instance AS (PARTITION BY group_id, group_ranks_id, sequence, name_id),
        arrival AS (
            PARTITION BY group_id, group_ranks_id, sequence, name_id
            ORDER BY start_nanos, process_id, device
        )
)
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
    FROM ordered
    WHERE arrived > 1
    GROUP BY process_id, device, group_id, group_ranks_id
)
