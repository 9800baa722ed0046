"""Published facts about the World Cup logs: totals to verify against, and statistics.

The generator is calibrated to the statistics. Sources: the archive's own check files (requests per
part and per server) and the per-minute counts derived from its logs, for day 66 (June 30, 1998, the
day the PPA paper replays); shares of methods, status codes, types and sizes from 10,000 genuine
records of day 50 (June 14, 1998, 21:53:43–21:54:25 GMT), because no finer ones are published."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

ARCHIVE_REQUESTS = 1_352_804_107
"""Requests in the whole archive, days 5–92."""

DAY_66 = 66
DAY_66_REQUESTS = 73_291_868
DAY_66_PARTS = (6_999_999, *[7_000_000] * 9, 3_291_869)
"""Requests per file ``wc_day66_1.gz`` … ``wc_day66_11.gz``."""

DAY_66_PER_SERVER: Mapping[int, int] = {
    0: 1715021, 1: 1714356, 2: 1714987, 3: 1717521, 4: 1714988, 5: 1715775,
    33: 1525391, 34: 2822121, 35: 2816215, 36: 2820260, 37: 2900886, 38: 2730469,
    39: 3308562, 40: 2759645, 41: 3308634, 42: 3130475,
    64: 3055426, 65: 2711815, 66: 3049828, 67: 3060371, 68: 3057125, 69: 2645118,
    70: 2703864, 71: 2647026, 72: 2652852, 73: 2706952,
    98: 1217585, 99: 2137253, 100: 1993691, 101: 1237656,
}  # fmt: skip
"""Requests per server byte on day 66, from the archive's check files."""

DAY_50_PER_SERVER: Mapping[int, int] = {
    0: 289, 1: 305, 2: 265, 3: 269, 4: 302, 5: 309,
    33: 212, 34: 312, 35: 379, 36: 361, 37: 393, 38: 488, 39: 413, 40: 378, 41: 242, 42: 470,
    64: 258, 65: 343, 66: 250, 67: 269, 68: 351, 69: 198, 70: 264, 71: 256, 72: 281, 73: 252,
    98: 599, 99: 592, 101: 700,
}  # fmt: skip
"""Requests per server byte among the 10,000 genuine records of day 50, 43 seconds after a match;
server 100 had none."""

DAY_66_PER_TEN_MINUTES = np.array([
    242784, 235093, 224867, 211082, 210484, 205596, 202588, 197754, 195916, 184210, 190159, 194928,
    194013, 193529, 194917, 195993, 186134, 187388, 186614, 179403, 171707, 166356, 159968, 158068,
    159650, 153378, 145960, 145982, 144803, 141404, 146500, 143257, 141447, 142320, 142484, 140835,
    137013, 128552, 124752, 127373, 122995, 119691, 120809, 127152, 122474, 135288, 132532, 139939,
    150794, 151140, 152792, 156825, 165974, 162514, 161303, 159469, 162495, 163094, 166993, 155306,
    162906, 154512, 152499, 153962, 160033, 161036, 159470, 159197, 164639, 157038, 158667, 160999,
    156986, 156878, 167289, 162261, 172549, 171792, 166073, 183825, 183157, 183989, 188315, 190016,
    198781, 205211, 213989, 216009, 228966, 228842, 248101, 259434, 248376, 267320, 268117, 273247,
    292118, 329631, 374282, 568253, 805448, 984902, 1102799, 1219844, 1279993, 1328229, 1364370,
    1431751, 1450408, 1483126, 1668653, 1314729, 1162234, 1020339, 954721, 898616, 852708, 807434,
    799551, 773859, 766114, 751482, 741849, 738833, 729301, 765546, 915764, 1126003, 1228588,
    1269326, 1381353, 1385142, 1360139, 1448434, 1505348, 1579239, 1700890, 1818466, 1746359,
    1802042, 1880279, 2080093, 2048838, 1545121,
])  # fmt: skip
"""Requests per ten minutes of day 66 from 00:00 in Paris; the last one includes the 129
requests stamped with the minute after midnight."""

METHOD_COUNTS: Mapping[int, int] = {0: 9986, 1: 10, 2: 4}
"""Requests by method (index into `METHODS`) among the 10,000 genuine records."""
STATUS_COUNTS: Mapping[int, int] = {
    66: 6009, 72: 7, 75: 2, 77: 710, 83: 40, 130: 2819, 141: 392, 147: 19, 211: 2,
}  # fmt: skip
"""Requests by status byte (version and index) among them."""
TYPE_COUNTS: Mapping[int, int] = {
    0: 991, 1: 8683, 2: 7, 4: 91, 6: 9, 8: 13, 10: 98, 12: 108,
}  # fmt: skip
"""Requests by type (index into `TYPES`) among them."""
TOP_SHARES: Mapping[int, float] = {
    1: 0.012, 10: 0.091, 20: 0.166, 50: 0.365, 100: 0.605, 200: 0.753, 500: 0.902,
}  # fmt: skip
"""Share of the requests that goes to the most requested n objects, among the 10,000 records."""
