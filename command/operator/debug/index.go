package debug

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/view"
)

// summary is what the index shows.
type summary struct {
	Leader       string
	members      api.ServerMembers
	nodes        []*api.NodeStub
	plugins      []*api.PluginStub
	evals        []*api.Evaluation
	volumes      rest.VolumeReport
	pluginReport rest.PluginsReport
}

// row is a row of a table of the index.
type row []string

type table struct {
	Title string
	Head  row
	Rows  []row
	// None replaces a table without rows.
	None string
}

type page struct {
	Name, Began, Took string
	Interrupted       bool
	Tables            []table
	Files             []folder
}

type folder struct {
	Name  string
	Files []link
}

type link struct{ Path, Href, Name, Size string }

// rowsShown bounds a table of the index.
const rowsShown = 200

//go:embed index.html.tmpl
var indexText string

var indexPage = template.Must(template.New("index").Parse(indexText))

// index writes index.json and index.html.
func (c *capture) index() error {
	slices.SortFunc(c.failures, func(a, b failure) int { return strings.Compare(a.Path, b.Path) })
	captured, err := files(c.root)
	if err != nil {
		return err
	}
	list, err := json.MarshalIndent(map[string]any{
		"Name": c.name, "Began": c.began.UTC(), "Interrupted": c.interrupted, "Files": captured, "Failures": c.failures,
	}, "", "  ")
	if err != nil {
		return err
	}
	var out bytes.Buffer
	p := page{Name: c.name, Began: c.began.UTC().Format(time.RFC3339), Took: time.Since(c.began).Round(time.Second).String(), Interrupted: c.interrupted}
	p.Tables, p.Files = c.tables(), folders(captured)
	if err := indexPage.Execute(&out, p); err != nil {
		return err
	}
	if err := c.root.WriteFile("index.json", append(list, '\n'), 0o600); err != nil {
		return err
	}
	return c.root.WriteFile("index.html", out.Bytes(), 0o600)
}

func folders(list []file) (out []folder) {
	for _, f := range list {
		dir := path.Dir(f.Path)
		if len(out) == 0 || out[len(out)-1].Name != dir {
			out = append(out, folder{Name: dir})
		}
		last := &out[len(out)-1]
		// Names contain percent signs, which a link escapes.
		last.Files = append(last.Files, link{Path: f.Path, Href: strings.ReplaceAll(f.Path, "%", "%25"), Name: path.Base(f.Path), Size: view.Bytes(f.Size)})
	}
	return out
}

func (c *capture) tables() []table {
	missing := table{"Not captured", row{"File", "Error"}, nil, "Everything was captured."}
	for _, f := range c.failures {
		missing.Rows = append(missing.Rows, row{f.Path, f.Error})
	}
	servers := table{"Servers", row{"Name", "Address", "Status", "Version", "Leader"}, nil, "No server is known."}
	for _, m := range c.sum.members.Members {
		if m != nil {
			leader := ""
			if m.Tags["rpc_addr"]+":"+m.Tags["port"] == c.sum.Leader {
				leader = "leader"
			}
			servers.Rows = append(servers.Rows, row{m.Name, m.Addr, m.Status, m.Tags["build"], leader})
		}
	}
	nodes := table{"Nodes", row{"ID", "Name", "Status", "Eligibility", "Drain", "Version", "Description"}, nil, "No node is known."}
	for _, n := range c.sum.nodes {
		if n != nil {
			drain := ""
			if n.Drain {
				drain = "draining"
			}
			nodes.Rows = append(nodes.Rows, row{n.ID, n.Name, n.Status, n.SchedulingEligibility, drain, n.Version, n.StatusDescription})
		}
	}
	return cut([]table{missing, servers, nodes, c.plugins(), c.stuck(), c.failedEvals()})
}

func (c *capture) plugins() table {
	t := table{"Unhealthy plugins", row{"Plugin", "Finding", "Severity", "Text", "Command"}, nil, "All plugins are healthy."}
	for _, p := range c.sum.plugins {
		if p == nil {
			continue
		}
		if p.NodesHealthy < p.NodesExpected || p.ControllersHealthy < p.ControllersExpected {
			t.Rows = append(t.Rows, row{p.ID, "instances", "", healthy(p), "nomad plugin status " + p.ID})
		}
	}
	for _, f := range c.sum.pluginReport.Findings {
		if f != nil && f.Severity != api.SeverityInfo {
			t.Rows = append(t.Rows, row{f.PluginID, f.Kind, f.Severity, f.Text, f.Command})
		}
	}
	return t
}

func (c *capture) stuck() table {
	t := table{"Volumes with findings", row{"Namespace", "Volume", "Finding", "Severity", "Since", "Text", "Next", "Command"}, nil, "No volume has a finding."}
	for _, f := range c.sum.volumes.Findings {
		if f != nil && f.Severity != api.SeverityInfo {
			since := ""
			if f.Since != 0 {
				since = view.UnixTime(f.Since)
			}
			t.Rows = append(t.Rows, row{f.Namespace, f.VolumeID, f.Kind, f.Severity, since, f.Text, f.Next, f.Command})
		}
	}
	return t
}

func (c *capture) failedEvals() table {
	t := table{"Failed and blocked evaluations", row{"ID", "Namespace", "Job", "Status", "Triggered by", "Description"}, nil, "No evaluation failed or is blocked."}
	for _, e := range c.sum.evals {
		if e != nil && (e.Status == api.EvalStatusFailed || e.Status == api.EvalStatusBlocked) {
			t.Rows = append(t.Rows, row{e.ID, e.Namespace, e.JobID, e.Status, e.TriggeredBy, e.StatusDescription})
		}
	}
	return t
}

func healthy(p *api.PluginStub) string {
	return fmt.Sprintf("%d of %d node instances and %d of %d controllers are healthy", p.NodesHealthy, p.NodesExpected, p.ControllersHealthy, p.ControllersExpected)
}

// cut bounds the rows of tables.
func cut(list []table) []table {
	for i := range list {
		if n := len(list[i].Rows); n > rowsShown {
			list[i].Rows = append(list[i].Rows[:rowsShown:rowsShown], row{fmt.Sprintf("and %d more: see the files", n-rowsShown)})
		}
	}
	return list
}
