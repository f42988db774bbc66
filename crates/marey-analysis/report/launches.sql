SELECT
    launch_name,
    kind,
    count(*) AS count,
    avg(CAST(launch_duration_nanos AS DOUBLE)) AS mean_launch_nanos,
    avg(CAST(duration_nanos AS DOUBLE)) AS mean_device_nanos,
    avg(CAST(launch_delay_nanos AS DOUBLE)) AS mean_delay_nanos,
    max(launch_delay_nanos) AS longest_delay_nanos,
    count(*) FILTER (WHERE duration_nanos < launch_duration_nanos) AS short_count
FROM launches
GROUP BY launch_name, kind
ORDER BY count DESC, launch_name
