#!/usr/bin/env bash
# A network that goes silent in the middle of a run, without a word from anybody: exit code 2 and one line that names the server
# within 10 s, the recording complete. Two hosts of our own, network namespaces joined by a cable; then one loses all it sends.
#   rpc-network.sh BIN_DIR
set -euo pipefail
bin="$1"
skip() { echo "skipped: $*"; exit 77; }
[ -x "$bin/llama-rpc-server" ] || skip "this build has no llama-rpc-server"
command -v ip >/dev/null && command -v ss >/dev/null || skip "no ip and ss (iproute2)"

work="$(mktemp -d)"
near="buoy-near-$$" far="buoy-far-$$" server="" client=""
clean_up() {
    [ -z "$client" ] || kill -KILL "$client" 2>/dev/null || true
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
    ip netns del "$near" 2>/dev/null || true
    ip netns del "$far" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM
ip netns add "$near" 2>/dev/null && ip netns add "$far" 2>/dev/null || skip "network namespaces need root"
ip link add cable netns "$near" type veth peer name cable netns "$far" 2>/dev/null || skip "no virtual cables here"
ip -n "$near" addr add 192.0.2.1/30 dev cable
ip -n "$far" addr add 192.0.2.2/30 dev cable
ip -n "$near" link set cable up
ip -n "$far" link set cable up
endpoint=192.0.2.2:50052

"$bin/llama-diffusion-bench" --make-model llada:E=256,L=4,H=8,FF=512,V=500,TYPE=f16 -o "$work/model.gguf"
"$bin/llama-diffusion-bench" --make-model llada:E=1024,L=4,H=8,FF=4096,V=500,TYPE=f32 -o "$work/large.gguf"

fail() {
    echo "FAILED: $*"
    cat "$work/err"
    exit 1
}

# within 10 s, and more where others want the processor
limit=10000
[ "$(cut -d. -f1 /proc/loadavg)" -lt "$(nproc)" ] || limit=60000

start_server() {
    ip netns exec "$far" "$bin/llama-rpc-server" -H 192.0.2.2 -p 50052 -t 1 -d CPU >"$work/server" 2>&1 &
    server=$!
    for _ in $(seq 1000); do
        ! ip netns exec "$far" ss -ltn | grep -q :50052 || return 0
        sleep 0.1
    done
    fail "llama-rpc-server does not start"
}

# start_client MODEL RECORDING
start_client() {
    ip netns exec "$near" timeout 1000 "$bin/llama-diffusion-cli" -m "$1" --tokens 1,2,3 -n 1500 -ngl all -t 1 --rpc "$endpoint" \
        --attn-dump "$2" --attn-reduce received --no-perf >"$work/out" 2>"$work/err" &
    client=$!
}

# until_running RECORDING: until steps are on the disk
until_running() {
    for _ in $(seq 3000); do
        [ "$(cat "$1"*.part 2>/dev/null | wc -c)" -lt 100000 ] || return 0
        sleep 0.1
    done
    fail "no step was recorded"
}

# lost NAME HOST PEER: HOST loses what it sends to PEER from now on; the client ends as it should
lost() {
    local name="$1" host="$2" peer="$3" status=0 begin taken
    kill -0 "$client" 2>/dev/null || fail "$name: it ended before the network did"
    ip -n "$host" route add blackhole "$peer"
    begin=$(date +%s%N)
    wait "$client" || status=$?
    taken=$((($(date +%s%N) - begin) / 1000000))
    client=""
    kill -KILL "$server"
    wait "$server" 2>/dev/null || true
    server=""
    ip -n "$host" route del blackhole "$peer"
    echo "$name: exit code $status after $taken ms: $(tail -n 1 "$work/err")"
    [ "$status" = 2 ] || fail "$name: expected exit code 2"
    [ "$taken" -lt $limit ] || fail "$name: expected less than $limit ms"
    [ "$(tail -n 1 "$work/err")" = "llama-diffusion-cli: RPC server '$endpoint': lost: its machine no longer answers" ] ||
        fail "$name: expected another last line"
}

# what was recorded is whole: as many steps as it says, each with its patterns
check_recording() {
    local steps
    "$bin/llama-attention" info --json "$1" >"$work/info" || fail "the recording can't be read"
    steps="$("$bin/llama-attention" temporal "$1" --csv 2>"$work/err" | wc -l)" || fail "the recording's steps can't be read"
    [ "$steps" -gt 10 ] || fail "the recording has $steps lines of steps"
}

# requests that nobody acknowledges
start_server
start_client "$work/model.gguf" "$work/sending.npz"
until_running "$work/sending.npz"
lost sending "$near" 192.0.2.2
check_recording "$work/sending.npz"

# a server that was asked and computes; while it merely takes its time, it is not lost
start_server
start_client "$work/model.gguf" "$work/waiting.npz"
until_running "$work/waiting.npz"
kill -STOP "$server"
sleep 11
kill -CONT "$server"
sleep 1
kill -0 "$client" 2>/dev/null || fail "a server that was merely slow was given up"
kill -STOP "$server"
sleep 1
lost waiting "$far" 192.0.2.1
check_recording "$work/waiting.npz"

# weights that the server has no room for just now
start_server
start_client "$work/large.gguf" "$work/loading.npz"
for _ in $(seq 100); do
    [ "$(ip netns exec "$far" ss -tn | awk '/:50052/ { sum += $2 } END { print sum + 0 }')" -eq 0 ] || break
    sleep 0.02
done
kill -STOP "$server"
sleep 1
lost loading "$far" 192.0.2.1
