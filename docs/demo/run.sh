#!/usr/bin/env bash
# The demo: one agent, the embedded CSI driver, a volume, and two jobs that share it.
# Usage: docs/demo/run.sh path/to/nomad   (KEEP=1 leaves the agent running, ACL=1 enables access control: the jobs are then
# run with a token that permits just that, DRIVER=raw_exec runs their tasks without isolation; the default is exec)
set -euo pipefail

NOMAD=$(readlink -f "${1:-bin/nomad}")
JOBS=$(cd "$(dirname "$0")" && pwd)
WORK=$(mktemp -d /tmp/nomad-demo.XXXXXX)
chmod 711 "$WORK" # tasks run as other users
PORT=${PORT:-14646}
export NOMAD_ADDR=http://127.0.0.1:$PORT
agent= management=

say() { printf '\n== %s\n' "$*"; }
fail() { echo "demo: $*" >&2; tail -n 20 "$WORK/agent.log" >&2 || true; exit 1; }

[ "$(id -u)" = 0 ] || { echo "demo: mounts need root; run it with sudo, or use 'make test' for what works without" >&2; exit 1; }

# wait_for SECONDS DESCRIPTION COMMAND...: asks until the command succeeds.
wait_for() {
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt "$end" ] || fail "waited too long for $what"
		sleep 0.05
	done
}
millis() { echo $(($(date +%s%N) / 1000000)); }
start_agent() {
	"$NOMAD" agent -config "$WORK/agent.hcl" >>"$WORK/agent.log" 2>&1 &
	agent=$!
	wait_for 15 "a ready node" ready
}
api() { "$NOMAD" operator api "$1"; }
# admin COMMAND...: runs a command with the management token.
admin() { NOMAD_TOKEN=$management "$NOMAD" "$@"; }
ready() { { [ -z "${ACL:-}" ] || [ -n "$management" ] || bootstrap; } && admin node status 2>/dev/null | grep 'ready$' >/dev/null; }
bootstrap() { management=$("$NOMAD" acl bootstrap -json 2>/dev/null | secret) && [ -n "$management" ]; }
secret() { grep -o '"SecretID": *"[^"]*"' | cut -d'"' -f4; }
running() { "$NOMAD" alloc status "$1" | grep -E 'Client Status +[= ]*running' >/dev/null; }
healthy() { "$NOMAD" plugin status hostpath 2>/dev/null | grep -E 'Nodes Healthy +[= ]*1' >/dev/null; }
alloc_of() { "$NOMAD" job status -json "$1" | grep -o '"ID": *"[0-9a-f-]\{36\}"' | head -1 | grep -o '[0-9a-f-]\{36\}'; }
# Claims that have ended are listed as releases.
claims() { api /v1/volume/csi/demo | sed 's/"Releases":\[[^]]*\]//' | grep -o '"AllocID":"[^"]*"' | sort -u | wc -l; }
unclaimed() { [ "$(claims)" = 0 ]; }
mounts() { grep -c "$WORK" /proc/self/mountinfo || true; }

finish() {
	code=$?
	if [ -n "${KEEP:-}" ] && [ $code = 0 ]; then
		say "the agent stays: export NOMAD_ADDR=$NOMAD_ADDR${management:+ NOMAD_TOKEN=$management}   (pid $agent, data in $WORK)"
		return
	fi
	for job in demo-writer demo-reader hostpath; do admin job stop -purge -detach "$job" >/dev/null 2>&1 || true; done
	if [ -n "$agent" ]; then
		end=$((SECONDS + 10))
		while admin operator api /v1/jobs 2>/dev/null | grep '"ID"' >/dev/null && [ $SECONDS -lt $end ]; do sleep 0.1; done
		kill "$agent" 2>/dev/null || true
		wait "$agent" 2>/dev/null || true
	fi
	grep -o " $WORK[^ ]*" /proc/self/mountinfo | sort -r | xargs -r -n1 umount 2>/dev/null || true
	[ $code = 0 ] && rm -rf --one-file-system "$WORK"
	[ $code = 0 ] && echo && echo "demo: ok"
	exit $code
}
trap finish EXIT

cat >"$WORK/agent.hcl" <<EOF
data_dir  = "$WORK/data"
bind_addr = "127.0.0.1"
log_level = "INFO"
ports {
  http = $PORT
  rpc  = $((PORT + 1))
  serf = $((PORT + 2))
}
server {
  enabled          = true
  bootstrap_expect = 1
}
client {
  enabled = true
}
${ACL:+acl {
  enabled = true
\}}
plugin "raw_exec" {
  config { enabled = true }
}
EOF

say "start an agent: server and client in one process"
began=$(millis)
start_agent
echo "node ready after $(($(millis) - began)) ms, agent pid $agent"
if [ -z "${DRIVER:-}" ]; then
	DRIVER=exec drivers=$(admin node status -self | grep '^Driver Status')
	if ! grep -Eq '[ ,]exec(,|$)' <<<"$drivers"; then
		DRIVER=raw_exec
		printf '%s\n%s\n' "driver exec cannot run here, so the tasks run with raw_exec: without isolation" "$drivers"
	fi
fi

if [ -n "${ACL:-}" ]; then
	say "the management token gives the team a token that runs jobs with volumes and reads their output"
	admin acl policy apply team "$JOBS/team.policy.hcl"
	NOMAD_TOKEN=$(admin acl token create -name team -type client -policy team -json | secret)
	export NOMAD_TOKEN
	"$NOMAD" acl token self | sed "s/$NOMAD_TOKEN/<secret>/"
fi

say "store the password of the storage: for the driver, and for its volumes"
password=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
for path in nomad/jobs/hostpath demo/storage; do
	echo "$password" | tr -d '\n' | admin var put -out none "$path" password=-
done
admin var list -out table

say "run the embedded CSI driver as a job, which refuses calls without the password"
sed "s|NOMAD_BINARY|$NOMAD|; s|STATE_DIR|$WORK/hostpath|" "$JOBS/hostpath.nomad.hcl" >"$WORK/hostpath.nomad.hcl"
began=$(millis)
admin job run -detach "$WORK/hostpath.nomad.hcl"
wait_for 20 "a healthy plugin" healthy
echo "plugin healthy after $(($(millis) - began)) ms"
"$NOMAD" plugin status hostpath

say "create a volume, which refers to the variable with the password"
! sed '/secrets_from/d' "$JOBS/volume.hcl" | admin volume create - 2>&1 || fail "a volume was created without the password"
admin volume create "$JOBS/volume.hcl"

say "run a job that writes to it, with driver $DRIVER"
for job in writer reader; do sed "s|\"exec\"|\"$DRIVER\"|" "$JOBS/$job.nomad.hcl" >"$WORK/$job.nomad.hcl"; done
"$NOMAD" job run "$WORK/writer.nomad.hcl"
alloc=$(alloc_of demo-writer)
wait_for 20 "the task" running "$alloc"
say "the claim"
"$NOMAD" volume status demo
say "the mount"
grep "$WORK" /proc/self/mountinfo | awk '{print $5}'
say "the file"
wait_for 10 "the first line" "$NOMAD" alloc logs "$alloc" writer
file=$(find "$WORK/data" -name greeting.txt 2>/dev/null | head -1)
[ -n "$file" ] || fail "the task has not written its file"
tail -n 2 "$file"

say "kill -9 the agent while the task runs"
task=$(pgrep -f "demo-writer-loop" | head -1)
kill -9 "$agent"
wait "$agent" 2>/dev/null || true
lines=$(wc -l <"$file")
wait_for 10 "the task to go on writing" bash -c "[ \$(wc -l <'$file') -gt $((lines + 1)) ]"
echo "the agent is gone; task pid $task goes on writing ($(wc -l <"$file") lines)"
before=$(mounts)
start_agent
wait_for 20 "the task to be adopted" running "$alloc"
kill -0 "$task" || fail "the task did not survive"
[ "$(pgrep -f demo-writer-loop | head -1)" = "$task" ] || fail "the task was started again instead of adopted"
[ "$(mounts)" = "$before" ] || fail "mounts changed from $before to $(mounts)"
echo "same task, same $before mounts, new agent pid $agent"

say "stop the job: its claim goes back"
began=$(millis)
"$NOMAD" job stop -detach demo-writer
wait_for 20 "the claim to be free" unclaimed
echo "claim free after $(($(millis) - began)) ms"

say "run a second job that reads the data back"
"$NOMAD" job run "$WORK/reader.nomad.hcl"
reader=$(alloc_of demo-reader)
wait_for 10 "the reader's output" bash -c "'$NOMAD' alloc logs '$reader' reader | grep -q greeting"
"$NOMAD" alloc logs "$reader" reader | head -5

if [ -n "${ACL:-}" ]; then
	say "the token of the team may not delete the volume"
	! "$NOMAD" volume delete demo 2>&1 || fail "the volume was deleted"
	! "$NOMAD" acl explain csi-write-volume || fail "csi-write-volume is allowed"
fi

say "the password is in no file of the agent: the servers store it encrypted, tasks have it in memory"
! grep -rlF "$password" "$WORK" || fail "the password is in a file"

say "clean up"
"$NOMAD" job stop -purge -detach demo-reader >/dev/null
"$NOMAD" job stop -purge -detach demo-writer >/dev/null
wait_for 20 "the claims to be free" unclaimed
if [ -z "${KEEP:-}" ]; then
	admin volume delete demo
	admin job stop -purge -detach hostpath >/dev/null
	wait_for 20 "the mounts to go" bash -c "! grep -q '$WORK/data/client/csi/.*/[0-9a-f]' /proc/self/mountinfo"
fi
