#!/usr/bin/env bash
# A network that goes silent in the middle of a run, without a word from anybody: exit code 2 and one line that names the server
# within 10 s, the recording complete. Two hosts of our own, network namespaces joined by a cable; then one loses all it sends.
#   rpc-network.sh BIN_DIR
set -euo pipefail
bin="$1"
skip() { echo "skipped: $*"; exit 77; }
[ -x "$bin/llama-rpc-server" ] || skip "this build has no llama-rpc-server"
command -v ip >/dev/null || skip "no ip (iproute2)"

work="$(mktemp -d)"
near="buoy-near-$$" far="buoy-far-$$" server=""
clean_up() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
    ip netns del "$near" 2>/dev/null || true
    ip netns del "$far" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
ip netns add "$near" 2>/dev/null && ip netns add "$far" 2>/dev/null || skip "network namespaces need root"
ip link add cable netns "$near" type veth peer name cable netns "$far" 2>/dev/null || skip "no virtual cables here"
ip -n "$near" addr add 192.0.2.1/30 dev cable
ip -n "$far" addr add 192.0.2.2/30 dev cable
ip -n "$near" link set cable up
ip -n "$far" link set cable up
endpoint=192.0.2.2:50052

"$bin/llama-diffusion-bench" --make-model llada:E=256,L=4,H=8,FF=512,V=500,TYPE=f16 -o "$work/model.gguf"

fail() {
    echo "FAILED: $*"
    cat "$work/err"
    exit 1
}

# lose NAME: in the middle of a run; with the name "waiting" while the server has been asked and is silent.
lose() {
    local name="$1" client status begin taken
    ip netns exec "$far" "$bin/llama-rpc-server" -H 192.0.2.2 -p 50052 -t 1 -d CPU >"$work/server" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        ip netns exec "$far" ss -ltn | grep -q :50052 && break
        sleep 0.1
    done
    ip netns exec "$near" "$bin/llama-diffusion-cli" -m "$work/model.gguf" --tokens 1,2,3 -n 1500 -ngl all -t 1 --rpc "$endpoint" \
        --attn-dump "$work/$name.npz" --attn-reduce received --no-perf >"$work/out" 2>"$work/err" &
    client=$!
    for _ in $(seq 300); do
        [ "$(cat "$work/$name.npz"*.part 2>/dev/null | wc -c)" -lt 100000 ] || break
        sleep 0.1
    done
    kill -0 "$client" 2>/dev/null || fail "$name: it ended before the network did"
    if [ "$name" = waiting ]; then
        # a server that takes its time is not lost
        kill -STOP "$server"
        sleep 11
        kill -CONT "$server"
        sleep 1
        kill -0 "$client" 2>/dev/null || fail "$name: a server that was merely slow was given up"
        kill -STOP "$server"
        sleep 1
    fi
    ip -n "$far" route add blackhole 192.0.2.1
    begin=$(date +%s%N)
    status=0
    wait "$client" || status=$?
    taken=$((($(date +%s%N) - begin) / 1000000))
    kill -KILL "$server"
    wait "$server" 2>/dev/null || true
    ip -n "$far" route del blackhole 192.0.2.1
    server=""
    echo "$name: exit code $status after $taken ms: $(tail -n 1 "$work/err")"
    [ "$status" = 2 ] || fail "$name: expected exit code 2"
    [ "$taken" -lt 10000 ] || fail "$name: expected less than 10 s"
    tail -n 1 "$work/err" | grep -q "^llama-diffusion-cli: RPC server '$endpoint': lost: " || fail "$name: the server is not named"
    "$bin/llama-attention" info "$work/$name.npz" >"$work/info" || fail "$name: the recording can't be read"
}
lose sending
lose waiting
