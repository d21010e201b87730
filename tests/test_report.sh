#!/bin/sh
# The report from outside: a run of eight layers on the fake target, a small
# log whose numbers are known, hostile, torn, foreign, empty and huge logs, and
# the page in a browser. Needs build/metatune; python3 and chromium are skipped
# by name when absent.
cd "$(dirname "$0")/.." || exit 2
MT=${METATUNE:-build/metatune}
passed=0 failed=0 skipped=0
T=$(mktemp -d "${TMPDIR:-/tmp}/metatune-report.XXXXXX") || exit 2
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM

pass() { passed=$((passed + 1)); echo "  ok   $1"; }
fail() {
    failed=$((failed + 1))
    echo "  FAIL $1"
    for f in "$T/out" "$T/err"; do [ -f "$f" ] && sed 's/^/    /;12q' "$f"; done
}
skip() { skipped=$((skipped + 1)); echo "  skip $1: $2"; }
ok() { # NAME TEST...
    name=$1
    shift
    if "$@"; then pass "$name"; else fail "$name: $*"; fi
}
no() { # NAME TEST...: it must not hold
    name=$1
    shift
    if "$@"; then fail "$name: not $*"; else pass "$name"; fi
}
run() { "$MT" "$@" >"$T/out" 2>"$T/err" </dev/null; rc=$?; }
bad() { # STATUS PATTERN ARGS: that status, one line on stderr that matches
    want=$1 pattern=$2
    shift 2
    run "$@"
    if [ "$rc" = "$want" ] && [ "$(wc -l <"$T/err")" -eq 1 ] &&
        grep -q "^metatune: .*$pattern" "$T/err"; then
        pass "refused ($pattern)"
    else
        fail "refused: $* (status $rc, want $want and \"$pattern\")"
    fi
}
have() { command -v "$1" >/dev/null 2>&1; }
charts() { grep -o 'data-chart="[a-z]*"' "$1" | wc -l | tr -d ' '; }
size() { wc -c <"$1" | tr -d ' '; }
finish() {
    echo "test_report: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
}
if [ ! -x "$MT" ]; then
    fail "$MT is missing; run make"
    finish
fi

# -------------------------------------------------- a run of eight layers
R=resnet18
LAYERS="--layer $R/conv1 --layer $R/layer1 --layer $R/layer2.0.conv1
 --layer $R/layer2.0.down --layer $R/layer2 --layer $R/layer3.0.conv1
 --layer $R/layer3.0.down --layer $R/layer3"
run tune --target fake $LAYERS --trials 24 --out "$T/t"
L=$T/t/records.jsonl
P=$T/t/report.html
ok "tune writes a report" test "$rc" = 0 -a -s "$P"
ok "its last line names it" test "$(tail -n 1 "$T/out")" = "report $P"
ok "under 500 KB" test "$(size "$P")" -lt 500000
ok "1 + 8 x 4 charts" test "$(charts "$P")" = 33
for kind in curve predicted knobs time; do
    ok "8 charts \"$kind\"" test \
        "$(grep -o "data-chart=\"$kind\"" "$P" | wc -l)" -eq 8
done
for text in 'What was gained' 'How sure it is' 'What to do next' \
    'in sum over 8 layers' '8 of 8 winners were measured again' \
    "The model's 90 % intervals held" 'measurements failed (COMPILE' \
    'the same settings in random order' '<h3>Failures: '; do
    ok "says \"$text\"" grep -qF "$text" "$P"
done
no "no script" grep -qi '<script' "$P"
no "loads nothing" grep -Eqi 'https?:|url\(|@import|src=|<(img|iframe|object)' \
    "$P"
run tune --target fake --layer $R/layer1 --trials 4 --quiet --out "$T/q"
ok "quiet: a report and no word" test "$rc" = 0 -a -s "$T/q/report.html" -a \
    ! -s "$T/out"
mkdir -p "$T/w/report.html"
run tune --target fake --layer $R/layer1 --trials 4 --out "$T/w"
ok "an unwritable report fails no run" test "$rc" = 0
ok "but says so" grep -q '^metatune: cannot write the report' "$T/err"
run report "$L" --out "$T/a.html" --title 'A <b>"title"</b>'
ok "report says what it wrote" grep -q \
    "^report $T/a.html: 8 layers, .* 33 charts, [0-9]* KB\$" "$T/out"
ok "title is escaped" grep -qF \
    '<h1>A &lt;b&gt;&quot;title&quot;&lt;/b&gt;</h1>' "$T/a.html"
run report "$L" --out "$T/b.html" --title 'A <b>"title"</b>'
ok "the same log, the same page" cmp -s "$T/a.html" "$T/b.html"
run report "$L" --out "$T/j.html" --json
ok "json" grep -q '"layers":8,.*"charts":33,"bad_lines":0}$' "$T/out"

# ------------------------------------ random runs as baseline, side by side
run tune --target fake --layer $R/layer1 --trials 24 --strategy random \
    --seed 5 --quiet --out "$T/t2" --log "$T/t2/mixed.jsonl"
run tune --target fake --layer $R/layer1 --trials 24 --quiet --out "$T/t2" \
    --log "$T/t2/mixed.jsonl"
ok "random runs of the log are the baseline" grep -q \
    'random search, measured: 1 run' "$T/t2/report.html"
no "and are not the result" grep -q 'records.jsonl (random)' \
    "$T/t2/report.html"
run report "$L" "$T/t2/mixed.jsonl" "$T/q/records.jsonl" --out "$T/s.html"
ok "several logs" test "$rc" = 0
ok "legend by file name" grep -q '>mixed.jsonl (metatune)<' "$T/s.html"
ok "equal names get their folder" grep -q '>q/records.jsonl (metatune)<' \
    "$T/s.html"
ok "layers are joined by task" test "$(charts "$T/s.html")" = 33

# ------------------------------------------------------------ bad logs
: >"$T/empty"
printf '\n\n' >"$T/blank"
printf '{"config":1}\nhello\n' >"$T/foreign"
head -c 300 "$L" >"$T/torn"
bad 2 'is empty' report "$T/empty" --out "$T/x.html"
bad 2 'is empty' report "$T/blank" --out "$T/x.html"
bad 2 'no record of this version' report "$T/foreign" --out "$T/x.html"
bad 2 'no record of this version' report "$T/torn" --out "$T/x.html"
bad 2 'cannot read the log' report "$T/none" --out "$T/x.html"
bad 2 'cannot read the log' report "$T" --out "$T/x.html"
bad 2 'which log' report --out "$T/x.html"
bad 2 'is one of the logs' report "$L" --out "$L"
bad 1 'cannot write the report' report "$L" --out "$T/no/such/x.html"
bad 2 'unknown option' report "$L" --nonsense
sed -n '1p' "$L" >"$T/task"
bad 2 'no measurement' report "$T/task" --out "$T/x.html"
no "nothing was written" test -e "$T/x.html"
{ head -n 9 "$L"; cat "$T/foreign"; printf '\000\000\n'
  sed -n '10,19p' "$L"; sed -n '20p' "$L" | head -c 300; } >"$T/mixed"
run report "$T/mixed" --out "$T/m.html"
ok "a torn log is used" test "$rc" = 0 -a "$(wc -l <"$T/err")" -eq 1
ok "what was left out is said" grep -q \
    'warning: .*: damaged or foreign lines left out: 4; good ones used: 19' \
    "$T/err"
ok "also on the page" grep -q '4 damaged or foreign lines' "$T/m.html"
ok "and that the run did not end" grep -q 'The run did not end' "$T/m.html"
run tune --target fail --layer $R/layer1 --trials 8 --quiet --out "$T/f"
ok "nothing valid: still a report" grep -q 'Nothing valid' \
    "$T/f/report.html"
ok "and what to look at" grep -q 'No valid setting:' "$T/f/report.html"

# ------------------------------------------------------------- 100,000 lines
i=0
while [ $i -lt 400 ]; do cat "$L"; i=$((i + 1)); done |
    head -n 100000 >"$T/huge"
ok "a log of 100,000 lines" test "$(wc -l <"$T/huge")" -eq 100000
run report "$T/huge" --out "$T/h.html"
ok "huge: page" test "$rc" = 0 -a "$(charts "$T/h.html")" = 33
ok "huge: under 500 KB" test "$(size "$T/h.html")" -lt 500000

# ----------------------------------------------- known numbers, hostile text
if have python3; then
    cat >"$T/make.py" <<'PY'
import json, sys, zlib

def line(**r):
    body = json.dumps(dict(v=1, **r), ensure_ascii=False)[:-1]
    body = body.replace('": ', '":').replace(', "', ',"')
    raw = body.encode('utf-8', 'surrogateescape')
    return raw + b',"crc":"%08x"}\n' % zlib.crc32(raw)

def trial(i, value, run, kind='explore', status='OK', **more):
    r = dict(kind='trial', run=run, seed=1, trial=i, batch=0,
             trial_kind=kind, repeat=0, strategy='metatune', task='known',
             target='t', knobs=dict(tile=i, order='a' if i < 3 else 'b'),
             space='%016x' % 1, status=status, unit='seconds')
    r.update(more)
    if status == 'OK':
        r['value'] = value
    return line(**r)

base = dict(run='r', task='known', target='t', layer='known/layer',
            space='%016x' % 1, status='OK', unit='seconds', naive_s=1.0,
            default_s=0.002, gflop=1.0, peak_gflops=4000.0)
with open(sys.argv[1], 'wb') as f:
    f.write(line(kind='task', **base))
    for i, v in enumerate([16, 8, 4, 2, 1]):
        # intervals: mean 2 ms, one octave each side is 1.645 sigma
        f.write(trial(i + 1, v * 1e-3, 'r', mean=0.002, sigma=1.01 / 1.645,
                      build_s=2.0, run_s=1.0, think_s=0.5 * (i + 1)))
    f.write(trial(6, 0, 'r', status='RUNTIME', error='it broke'))
    for rep, v in enumerate([0.00100, 0.00102, 0.00104]):
        f.write(trial(5, v, 'r', kind='confirm', repeat=rep))
    for rep, v in enumerate([0.00101, 0.00103, 0.00105]):
        f.write(trial(4, v, 'r', kind='confirm', repeat=rep))

evil = '</script><script>alert("x")</script>\'"><img src=x onerror=alert(1)>&'
with open(sys.argv[2], 'wb') as f:
    for run in (evil, 'r2'):
        f.write(line(kind='task', **dict(base, run=run, task=evil,
                                         target=evil, layer=evil + run,
                                         device=evil)))
        for i in range(1, 30):
            knobs = {evil: evil + str(i % 3), 'tile': i, 'q"\\': '\u202e<'}
            more = dict(task=evil, target=evil, knobs=knobs, strategy=evil,
                        space='%016x' % 2, mean=1e300 if i % 2 else 1e-300,
                        sigma=0.0 if i % 3 else 900.0)
            if i % 5 == 0:
                f.write(trial(i, 0, run, status='COMPILE',
                              error=evil[:100] + '\x00\x1b[31m\udcff' +
                              str(i), **more))
            else:
                f.write(trial(i, 10.0 ** (i * 10 - 150), run, **more))
    for unit in ('cycles', 'instructions'):
        f.write(trial(1, 12345678.0, 'u', task=unit, unit=unit))
    f.write(trial(1, 1.0, 'k', task='no knobs', knobs={}))
    f.write(trial(1, 1.0, 'k', task='', knobs={'a': 1}))
PY
    cat >"$T/page.py" <<'PY'
# Structure: balanced tags of a known set, unique ids, headings in order,
# every reference resolves, every table has caption and scopes, every chart a
# title and a description and is well-formed XML.
import re, sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
VOID = {'meta', 'link'}
KNOWN = VOID | set('''html head title style body a header h1 h2 h3 p main div
 section ul li strong figure figcaption span svg desc path text tspan rect
 table caption thead tbody tr th td code nav dl dt dd details summary
 footer'''.split())
faults = []
class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.stack, self.ids, self.refs, self.level = [], [], [], 0
        self.marks, self.table = set(), None
    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        if tag not in KNOWN:
            faults.append('tag %s at %s' % (tag, self.getpos()))
        for k in a:
            if k.startswith('on') or k in ('src', 'srcset'):
                faults.append('attribute %s' % k)
        if 'id' in a:
            self.ids.append(a['id'])
        self.refs += a.get('aria-labelledby', '').split()
        if a.get('href', '').startswith('#'):
            self.refs.append(a['href'][1:])
        if re.fullmatch('h[1-6]', tag):
            if int(tag[1]) > self.level + 1:
                faults.append('heading %s after h%d' % (tag, self.level))
            self.level = int(tag[1])
        if tag in ('main', 'header', 'nav', 'footer'):
            self.marks.add(tag)
        if tag == 'th' and 'scope' not in a:
            faults.append('th without scope')
        if tag == 'table':
            self.table = False
        if tag == 'caption':
            self.table = True
        if tag not in VOID:
            self.stack.append(tag)
    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.stack.pop()
    def handle_endtag(self, tag):
        if tag == 'table' and not self.table:
            faults.append('table without caption')
        if not self.stack or self.stack.pop() != tag:
            faults.append('end of %s at %s' % (tag, self.getpos()))
raw = open(sys.argv[1], 'rb').read()
text = raw.decode('utf-8')
page = Page()
page.feed(text)
page.close()
if page.stack:
    faults.append('open at the end: %s' % page.stack)
if len(set(page.ids)) != len(page.ids):
    faults.append('an id comes twice')
for ref in set(page.refs) - set(page.ids):
    faults.append('no id %s' % ref)
if page.marks != {'main', 'header', 'nav', 'footer'}:
    faults.append('landmarks %s' % page.marks)
if re.search('[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]', text):
    faults.append('control characters')
n = 0
for svg in re.findall(r'<svg.*?</svg>', text, re.S):
    n += 1
    try:
        root = ET.fromstring(svg)
        if not (root.find('title').text and root.find('desc').text):
            faults.append('chart %d: no words' % n)
        for number in re.findall(r'[ "MHVL](nan|inf|-nan|-inf)', svg):
            faults.append('chart %d: %s' % (n, number))
    except ET.ParseError as e:
        faults.append('chart %d: %s' % (n, e))
print('\n'.join(faults[:10]))
sys.exit(1 if faults or n != len(re.findall('data-chart', text)) else 0)
PY
    python3 "$T/make.py" "$T/known" "$T/evil" 2>"$T/err" || fail "make.py"
    run report "$T/known" --out "$T/k.html"
    ok "known: page" test "$rc" = 0 -a ! -s "$T/err"
    K=$T/k.html
    ok "gain against default" grep -q '<p class="big">1.96' "$K"
    ok "expected best of one random draw" grep -q \
        '<td>1</td><td>16.0 ms</td><td>6.20 ms</td>' "$K"
    # of 6 settings one fails: (1*C(5,3) + 2*C(4,3) + 4*C(3,3)) over those
    # and 8*0: 10/15 + 2*4/15 + 4*1/15
    ok "of four, one of six failing" grep -q \
        '<td>4</td><td>2.00 ms</td><td>1.47 ms</td>' "$K"
    ok "interval coverage" grep -q '90 % intervals held 3 of 5' "$K"
    ok "confirm spread and ties" grep -q \
        'measured again 3 times, spread 3.9 %, 1 other setting ties' "$K"
    ok "time by part" grep -q 'build 10.0 s, 57 %' "$K"
    ok "knob median" grep -q \
        'order</th><td>a</td><td>2</td><td>8</td><td>10</td><td>12</td>' "$K"
    ok "failure with message" grep -q \
        'RUNTIME</th><td>1</td><td class="l"><code>it broke<' "$K"
    ok "the run is said to be open" grep -q 'The run did not end' "$K"
    run report "$T/evil" "$T/known" --out "$T/e.html" --title "<script>'\"&"
    ok "hostile: page" test "$rc" = 0 -a ! -s "$T/err"
    no "hostile: no script" grep -qi '<script' "$T/e.html"
    ok "hostile: its text is shown" grep -qF \
        '&lt;img src=x onerror=alert(1)&gt;&amp;' "$T/e.html"
    for page in "$P" "$T/s.html" "$T/m.html" "$T/f/report.html" "$K" \
        "$T/h.html" "$T/e.html"; do
        if python3 "$T/page.py" "$page" >"$T/out" 2>"$T/err"
        then pass "structure of ${page##*/}"
        else fail "structure of ${page##*/}"
        fi
    done
else
    skip "known numbers, hostile text, structure" "no python3"
fi

# ------------------------------------------------------------- a browser
browser=
for b in chromium chromium-browser google-chrome; do
    [ -z "$browser" ] && have "$b" && browser=$b
done
if [ -n "$browser" ]; then
    for page in "$P" "$T/s.html" "$T/e.html"; do
        [ -f "$page" ] || continue
        HOME=$T timeout 60 "$browser" --headless --no-sandbox --disable-gpu \
            --user-data-dir="$T/browser" --enable-logging=stderr --v=0 \
            --dump-dom "file://$page" >"$T/dom" 2>"$T/console" </dev/null
        ok "browser: charts of ${page##*/}" test \
            "$(charts "$T/dom")" = "$(charts "$page")"
        no "browser: no console message" grep -q 'CONSOLE' "$T/console"
    done
else
    skip "the page in a browser" "no chromium"
fi
finish
