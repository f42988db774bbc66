
import sys, marey
result = marey.open('/tmp/pytest-of-root/pytest-309/recorded1/train.marey').sql("SELECT * FROM spans")
repr(result), result._repr_html_(), result.rows(), result.__arrow_c_stream__()
print({"numpy", "pandas", "pyarrow", "polars"} & {*sys.modules})
