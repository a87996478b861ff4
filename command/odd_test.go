package command_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/command"
	"github.com/open-nomad/open-nomad/jobspec/examples"
)

// verbs are all commands that show what a server answered. $JOB, $VOLUME and $QUOTA are files.
var verbs = strings.Split(strings.TrimSpace(`
node status
ui -show-url x
watch
watch x
node status x
node status -verbose x
node status -stats x
node status -self
node status -json x
node drain -enable -yes -detach x
node drain -disable x
monitor -node-id x
monitor -server-id leader -json
monitor export -on-disk -node-id x
node meta read -node-id x
node meta apply -node-id x -unset b k=v
node identity get x
node identity renew x
node intro create
node eligibility -disable x
node config -servers
event stream -topic Job:x
event stream -json
operator metrics
operator metrics -pretty
job status
job status x
job status -verbose x
job status -evals -all-allocs x
job inspect x
job history x
job history -p x
job allocs x
job deployments x
job plan $JOB
job run -detach $JOB
job run $JOB
job validate $JOB
job stop -yes -detach x
job eval -detach x
job eval -detach -force-reschedule x
job dispatch -detach x
job promote -detach x
job revert -detach x 1
job scale -detach x 3
job scaling-events x
job periodic force -detach x
job restart -yes x
job start -detach x
job tag apply -name a x
alloc status x
alloc status -verbose -stats x
alloc checks x
job action -job x y
action -job x -alloc y z
alloc logs x
alloc logs x t
alloc logs -n 3 x t
alloc fs x
alloc fs x a
alloc stop -detach x
alloc restart x
alloc signal x
alloc pause x
alloc pause -status x
eval status x
eval status -verbose x
eval list
eval delete -yes x
deployment list
deployment status x
deployment status -verbose x
deployment promote -detach x
deployment fail -detach x
deployment pause x
plugin status
plugin status x
plugin status -verbose x
volume status
volume status x
volume status -verbose x
volume status -type host
volume status -type host -verbose x
volume delete -type host x
volume claim list
volume claim delete -y x
volume attachments
volume doctor
volume doctor x
volume doctor -fix -yes x
volume timeline x
plugin doctor
plugin doctor -verbose x
volume create $VOLUME
volume register $VOLUME
volume detach x x
volume delete x
volume deregister x
volume snapshot list
namespace list
namespace status x
namespace inspect x
namespace apply x
namespace delete x
acl bootstrap
acl explain submit-job
acl policy list
acl policy info x
acl policy self
acl policy apply x $JOB
acl policy delete x
acl token list
acl token info x
acl token self
acl token create -policy x
acl token update -name y x
acl token delete x
acl role list
acl role info x
acl role info -by-name x
acl role create -name x -policy x
acl role update -name y x
acl role delete x
acl auth-method list
acl auth-method info x
acl auth-method create -name x -type JWT -token-locality local -max-token-ttl 1h -config {}
acl auth-method update -default x
acl auth-method delete x
acl binding-rule list
acl binding-rule info x
acl binding-rule create -auth-method x -bind-type management
acl binding-rule update -description y x
acl binding-rule delete x
login -login-token x
login -oidc-callback-addr 127.0.0.1:0
quota list
service list
service info x
service info -verbose x
service delete x y
quota status x
quota inspect x
quota apply $QUOTA
quota delete x
var list -out table
var list -out terse x
var list -out json
var get -out table x
var get -out hcl x
var get -out json x
var put -force x a=b
var put x a=b
var put -out table x a=b
var purge x
var purge -check-index 1 x
server members
server members -verbose
agent-info
status
status x
system gc
system reconcile summaries
operator raft list-peers
operator raft remove-peer -peer-id x
operator raft transfer-leadership -peer-id x
operator autopilot get-config
operator autopilot set-config -max-trailing-logs=10
operator autopilot health
operator scheduler get-config
operator scheduler set-config -scheduler-algorithm=spread
operator gossip keyring list
operator root keyring list
operator root keyring rotate -full
operator root keyring remove x
scaling policy list
scaling policy info x
job tag unset -name a x
deployment resume x
deployment unblock x
volume snapshot create x
volume snapshot delete x x
operator gossip keyring install x
operator gossip keyring use x
operator gossip keyring remove x
operator snapshot restore $JOB
server join x
server force-leave x`), "\n")

// showVerb runs a verb against a server; no outcome but a panic is wrong here.
func showVerb(t *testing.T, address, verb string) (shown string) {
	t.Helper()
	var out bytes.Buffer
	root := command.New()
	root.Writer, root.ErrWriter, root.Reader = &out, &out, strings.NewReader("")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // monitors end with it
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%s: panic: %v", verb, p)
		}
	}()
	_ = command.Run(ctx, root, append(append([]string{"nomad"}, strings.Fields(verb)...), "-address", address))
	return out.String()
}

// verbFiles puts the files in the place of their names.
func verbFiles(t testing.TB) func(verb string) string {
	t.Helper()
	dir := t.TempDir()
	job, volume, quota := filepath.Join(dir, "x.nomad.hcl"), filepath.Join(dir, "v.hcl"), filepath.Join(dir, "q.hcl")
	for path, text := range map[string]string{
		job:    `job "x" { group "g" { task "t" { driver = "mock_driver" } } }`,
		quota:  examples.Quota,
		volume: "id = \"x\"\nname = \"x\"\ntype = \"csi\"\nplugin_id = \"x\"\ncapability {\n access_mode = \"single-node-writer\"\n attachment_mode = \"file-system\"\n}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return strings.NewReplacer("$JOB", job, "$VOLUME", volume, "$QUOTA", quota).Replace
}

func TestOddAnswersAreNoPanics(t *testing.T) {
	t.Parallel()
	bodies := []string{
		`null`, `[]`, `{}`, `[null]`, `[{}]`, `""`, `"x"`, `0`, `true`, ``, `{"a":`, `[[]]`,
		`{"Allocs":null,"Nodes":[null],"Members":[null],"Servers":[null],"Job":null,"Diff":null,"TaskGroups":[null],"Versions":[null],"Diffs":[null],"Summary":null,"Matches":{"jobs":null}}`,
		`[{"ID":"x","JobID":"x","Name":"x","NodeID":"x","EvalID":"x","ModifyTime":-9223372036854775808,"CreateTime":9223372036854775807,"TaskStates":{"t":null},"TaskGroups":[null],"Job":null,"JobSummary":null,"DeploymentStatus":null,"Events":[null]}]`,
		`[{"ID":"x","JobID":"x","Name":"x","NodeID":"x","EvalID":"x","ModifyTime":-9223372036854775808,"CreateTime":9223372036854775807}]`,
		`{"ID":"x","JobID":"x","Name":"x","NodeID":"x","EvalID":"","TaskGroups":[{"Name":null,"Tasks":[null]}],"TaskStates":{"t":null,"u":{"Events":[null,{}]}},"AllocatedResources":{"Tasks":{"t":null}},"Metrics":null,"Events":[null],"Drivers":{"d":null},"HostVolumes":{"v":null},"NodeResources":null,"Attributes":null,"Job":{"ID":"x","TaskGroups":[null]},"Topologies":[null],"Capacity":-1}`,
	}
	files := verbFiles(t)
	for _, body := range bodies {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("X-Nomad-Index", "5")
				_, _ = io.WriteString(w, body)
			}))
			defer server.Close()
			for _, verb := range verbs {
				showVerb(t, server.URL, files(verb))
			}
			if t.Failed() {
				t.Logf("answer %s", body)
			}
		})
	}
}
