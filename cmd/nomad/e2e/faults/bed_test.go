package faults

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// driverBinary is built once for all tests.
var driverBinary string

func TestMain(m *testing.M) {
	code := func() int {
		dir, err := os.MkdirTemp("", "faults")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		driverBinary = filepath.Join(dir, "driver")
		if out, err := exec.Command("go", "build", "-o", driverBinary, "./driver").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the driver: %v\n%s", err, out)
			return 1
		}
		defer stopEngine()
		return m.Run()
	}()
	os.Exit(code)
}

// bed is a server, some nodes and the driver's storage.
type bed struct {
	*kit.Host // the server that is asked
	servers   []*kit.Host
	layout
	t       *testing.T
	lab     *kit.Lab
	nodes   []*kit.Host
	storage string
	// allowed are violations that the scenario means, as "kind node".
	allowed []string
	// volumes are those that the bed created: id -> id at the driver.
	volumes map[string]string
	// crowd is how crowded the machine was at the beginning.
	crowd float64
	// measured is set when the scenario has its row.
	measured bool
}

// layout is what a bed has. The zero values are one server, one node, and a driver that mounts without attaching.
type layout struct {
	servers, nodes int
	attach         bool
	// fuse makes the driver publish by FUSE file systems.
	fuse bool
	// odd makes the driver mount in one of the ways of its option.
	odd string
	// disk is a block device that the driver mounts as each volume, with the file system fs; empty for directories.
	disk, fs string
	// driver runs the tasks that use volumes: that of all tests when it is empty.
	driver string
	// prepare is called with each node before its agent starts.
	prepare func(*kit.Host)
	// times are lines for the server block; empty for kit.Quick.
	times string
}

// newBed starts a server and nodes n1, n2, ... and the driver on all of them.
func newBed(t *testing.T, nodes int, attach bool) *bed {
	t.Helper()
	return layout{nodes: nodes, attach: attach}.bed(t)
}

func (l layout) bed(t *testing.T) *bed {
	t.Helper()
	lab := kit.NewLab(t)
	l.driver = cmp.Or(l.driver, taskDriver)
	b := &bed{t: t, lab: lab, storage: lab.Path("storage"), layout: l, volumes: map[string]string{}, crowd: kit.Crowding()}
	t.Cleanup(func() {
		if number, isFault := strings.CutPrefix(t.Name(), "TestFault"); isFault && t.Failed() && !b.measured {
			kit.Measured(t, fmt.Sprintf("fault %.2s | %s | stopped before its end", number, t.Name()))
		}
	})
	if err := os.Mkdir(b.storage, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range max(1, l.servers) {
		b.servers = append(b.servers, lab.Host(fmt.Sprintf("s%d", i+1)))
	}
	b.Host = b.servers[0]
	for _, s := range b.servers {
		s.Serve(b.servers, cmp.Or(l.times, kit.Quick))
	}
	nodes := max(1, l.nodes)
	for i := range nodes {
		n := lab.Host(fmt.Sprintf("n%d", i+1))
		if l.prepare != nil {
			l.prepare(n)
		}
		n.More = b.withDriver()
		n.Work(b.servers, b.clientLines())
		b.nodes = append(b.nodes, n)
	}
	b.Ready(nodes)
	b.Register(b.driverJob())
	b.PluginOn("hp", nodes)
	return b
}

func ptr[T any](v T) *T { return &v }

// driverJob is the faulty driver on all nodes.
func (b *bed) driverJob() *api.Job {
	j := b.PluginJob("hp")
	task := j.TaskGroups[0].Tasks[0]
	args := []string{"-state-dir", b.storage, "-node-id", "${node.unique.name}"}
	if b.fuse {
		args = append(args, "-fuse")
	}
	if b.odd != "" {
		args = append(args, "-odd", b.odd)
	}
	if b.disk != "" {
		args = append(args, "-disk", b.disk, "-fs", b.fs)
	}
	if b.attach {
		args = append(args, "-attach")
	}
	j.TaskGroups[0].EphemeralDisk = &api.EphemeralDisk{SizeMB: ptr(10)}
	task.Config = map[string]any{"command": driverBinary, "args": args}
	return j
}

// spec describes a single-writer volume; more are fields beside those of the SDK.
func spec(id string, more map[string]any) map[string]any {
	fields := map[string]any{
		"ID": id, "Name": id, "Namespace": "default", "PluginID": "hp", "RequestedCapacityMin": 1 << 20,
		"RequestedCapabilities": capabilities("single-node-writer"),
	}
	maps.Copy(fields, more)
	return fields
}

// capabilities are file systems with the access modes.
func capabilities(modes ...string) (all []map[string]any) {
	for _, m := range modes {
		all = append(all, map[string]any{"AccessMode": m, "AttachmentMode": "file-system"})
	}
	return all
}

// register submits a volume that exists at the driver, and returns the answer.
func (b *bed) register(id, external string, more map[string]any) (answer string, code int) {
	b.t.Helper()
	fields := spec(id, more)
	fields["ExternalID"] = external
	return b.put("/v1/volume/csi/"+id, map[string]any{"Volumes": []any{fields}})
}

// create asks for a volume and returns the answer.
func (b *bed) create(id string, more map[string]any) (answer string, code int) {
	b.t.Helper()
	return b.put("/v1/volume/csi/"+id+"/create", map[string]any{"Volumes": []any{spec(id, more)}})
}

// volume creates a single-writer volume.
func (b *bed) volume(id string, more map[string]any) {
	b.t.Helper()
	body, code := b.create(id, more)
	if code != http.StatusOK {
		b.t.Fatalf("create volume %s: %d %s", id, code, body)
	}
	v, _, err := b.API.CSIVolumes().Info(id, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.volumes[id] = v.ExternalID
}

// put sends what the SDK has no words for.
func (b *bed) put(path string, body any) (answer string, code int) {
	b.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPut, b.API.Address()+path, bytes.NewReader(raw))
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out bytes.Buffer
	_, _ = out.ReadFrom(resp.Body)
	return out.String(), resp.StatusCode
}

// writing holds its volume: it makes data once, checks it, and notes each start, beat and stop. It may be stopped
// between any two of its steps, so that the checksum, which says that the data is whole, comes by a rename.
const writing = `cd data || exit 9
[ -f sum ] || { head -c 65536 /dev/urandom > payload && sha256sum payload > sum.new && mv sum.new sum; }
sha256sum -c sum > /dev/null || exit 3
echo start $NOMAD_ALLOC_ID >> journal
trap 'echo stop $NOMAD_ALLOC_ID >> journal; exit 0' INT TERM
while :; do echo beat $NOMAD_ALLOC_ID >> journal; sleep 0.05; done`

// writer is a job that writes on a volume.
func writer(id, volume string) *api.Job { return kit.WithVolume(kit.ShellJob(id, writing), volume) }

// on pins a job to a host.
func on(j *api.Job, h *kit.Host) *api.Job {
	j.Constraints = []*api.Constraint{{LTarget: "${node.unique.name}", RTarget: h.Name, Operand: "="}}
	return j
}

// host is the host that an allocation is on.
func (b *bed) host(alloc *api.AllocationListStub) *kit.Host {
	b.t.Helper()
	for _, n := range b.nodes {
		if n.Name == alloc.NodeName {
			return n
		}
	}
	b.t.Fatalf("allocation %s is on %q", alloc.ID, alloc.NodeName)
	return nil
}

// other is a node that is not this one.
func (b *bed) other(h *kit.Host) *kit.Host {
	return b.nodes[slices.IndexFunc(b.nodes, func(n *kit.Host) bool { return n != h })]
}

// faults replaces the driver's script.
func (b *bed) faults(faults ...script.Fault) {
	b.t.Helper()
	if err := script.Set(b.storage, faults...); err != nil {
		b.t.Fatal(err)
	}
}

// calls are the driver's calls of the kinds (all without any), of one volume unless empty.
func (b *bed) calls(volume string, rpc ...string) []script.Call {
	b.t.Helper()
	all, err := script.Calls(b.storage)
	if err != nil {
		b.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(c script.Call) bool {
		return volume != "" && c.Volume != b.volumes[volume] || len(rpc) > 0 && !slices.Contains(rpc, c.RPC)
	})
}

// data is a file on the volume, as the storage has it.
func (b *bed) data(volume, file string) string {
	return filepath.Join(b.storage, "data", b.volumes[volume], file)
}

// journal reads what the tasks wrote on the volume; it may not exist yet.
func (b *bed) journal(volume string) string {
	body, _ := os.ReadFile(b.data(volume, "journal"))
	return string(body)
}

// beats waits until the allocation writes on the volume.
func (b *bed) beats(volume, alloc string) time.Duration {
	b.t.Helper()
	count := func() int { return strings.Count(b.journal(volume), "beat "+alloc) }
	before := count()
	return b.Until(15*time.Second, "a beat of "+alloc, func() error {
		if count() <= before {
			return fmt.Errorf("the journal stands still at %d beats", before)
		}
		return nil
	})
}

// waits describes what a volume says of its claims and attachments.
func (b *bed) waits(volume string) string {
	var v struct {
		Claims      []struct{ AllocID, State, LastError string }
		Attachments []struct{ NodeID, State, LastError string }
	}
	if _, err := b.API.Raw().Query("/v1/volume/csi/"+volume, &v, nil); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", v)
}

// runs waits until the job has a running allocation, no longer than the limit.
func (b *bed) runs(job, volume string, limit time.Duration) time.Duration {
	b.t.Helper()
	return b.Until(limit, job+" to run", func() error {
		if len(b.Allocs(job, "running")) == 0 {
			return fmt.Errorf("%s %s", b.tell(job), b.waits(volume))
		}
		return nil
	})
}
