
import json
import sys

import marey
from replay import Double

double = Double()
session = marey.start("x", data="trace", backend="cupti")
double.run()
marey.finalize(session, "marey")
query = '''
    SELECT kind, name, stream, duration_nanos, bytes, grid FROM gpu_activities
    WHERE kind IN ('kernel', 'memcpy', 'memset')
'''
print(json.dumps(marey.open("x.marey").sql(query).rows()))
