package main_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/jobspec/volumespec"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/config"
)

const recipes = "../../docs/recipes"

// recipeVars are values of variables that have no default.
var recipeVars = map[string]string{"cluster_id": "c", "monitors": `["10.0.0.1:6789"]`, "region": "eu-central-1"}

// parseRecipe parses and checks a job file for a node whose agent has the block of docs/recipes/README.md.
func parseRecipe(path string, body []byte) (*api.Job, error) {
	vars := map[string]string{"image": "mirror.example.com/driver:1"}
	for name, value := range recipeVars {
		if strings.Contains(string(body), fmt.Sprintf("variable %q", name)) {
			vars[name] = value
		}
	}
	job, err := jobspec.Parse(jobspec.Input{Path: path, Body: body, Vars: vars})
	if err != nil {
		return nil, err
	}
	jobspec.Canonicalize(job)
	rules.Complete(job)
	errs := append(rules.Check(job, rules.Default()), rules.Later(job)...)
	if w := rules.Warnings(job, false); w != "" {
		errs = append(errs, errors.New(w))
	}
	agent, err := config.ParsePlugin(map[string]any{"allow_privileged": true, "volumes": map[string]any{"enabled": true}})
	if err != nil {
		return nil, err
	}
	for _, g := range job.TaskGroups {
		for _, task := range g.Tasks {
			c, err := config.ParseTask(task.Config)
			switch {
			case err == nil && c.Image != vars["image"]:
				err = errors.New("the image is not that of the variable")
			case err == nil:
				err = agent.Allowed(c)
			}
			errs = append(errs, err)
			if task.Driver != config.Name || task.CSIPluginConfig == nil {
				errs = append(errs, fmt.Errorf("task %s is no CSI plugin of the driver %s", task.Name, config.Name))
			}
		}
	}
	return job, errors.Join(errs...)
}

// checkRecipeVolume parses a volume file for the plugin id. Credentials must be in a variable.
func checkRecipeVolume(path string, body []byte, plugin string) error {
	v, err := volumespec.Parse(path, body)
	switch {
	case err != nil:
		return err
	case v.ID == "" || v.Name == "" || len(v.RequestedCapabilities) == 0:
		return errors.New("id, name or capability is missing")
	case v.PluginID != plugin:
		return fmt.Errorf("the plugin of the volume is %q, the job runs %q", v.PluginID, plugin)
	case len(v.Secrets) > 0:
		return errors.New("secrets are in clear text: use secrets_from")
	}
	return nil
}

// addKey returns variants of a file that have an unknown key: one at the end and one in each block with the name.
func addKey(body []byte, block string) []string {
	all := []string{string(body) + "\nnot_a_key = 1\n"}
	for i := range strings.Count(string(body), block+" {\n") {
		parts := strings.SplitN(string(body), block+" {\n", i+2)
		all = append(all, strings.Join(parts[:i+1], block+" {\n")+block+" {\nnot_a_key = 1\n"+parts[i+1])
	}
	return all
}

func TestRecipesAreValid(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile(filepath.Join(recipes, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob(filepath.Join(recipes, "*", "README.md"))
	if err != nil || len(dirs) < 12 {
		t.Fatalf("recipes: %v %v", dirs, err)
	}
	for _, readme := range dirs {
		dir := filepath.Dir(readme)
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if text := read(t, readme); strings.Count(text, "\n") > 40 {
				t.Error("README.md has more than 40 lines")
			}
			if !strings.Contains(string(index), "]("+name+"/README.md)") {
				t.Errorf("docs/recipes/README.md does not list %s", name)
			}
			plugin := recipeJobs(t, dir)
			path := filepath.Join(dir, "volume.hcl")
			body := []byte(read(t, path))
			if err := checkRecipeVolume(path, body, plugin); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			for i, bad := range addKey(body, "capability") {
				if checkRecipeVolume(path, []byte(bad), plugin) == nil {
					t.Errorf("%s: unknown key %d is accepted", path, i)
				}
			}
		})
	}
}

// recipeJobs checks the job files of a directory: a monolith, or a controller and a node. It returns their plugin id.
func recipeJobs(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.nomad.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	plugin, kinds := "", ""
	for _, path := range files {
		body := []byte(read(t, path))
		job, err := parseRecipe(path, body)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for i, bad := range append(addKey(body, "config"), addKey(body, "csi_plugin")...) {
			if _, err := parseRecipe(path, []byte(bad)); err == nil {
				t.Errorf("%s: unknown key %d is accepted", path, i)
			}
		}
		p := job.TaskGroups[0].Tasks[0].CSIPluginConfig
		if plugin != "" && plugin != p.ID {
			t.Errorf("%s: plugin id %q, another job has %q", path, p.ID, plugin)
		}
		plugin = p.ID
		kinds += string(p.Type) + " "
		if wantSystem := p.Type != api.CSIPluginTypeController; wantSystem != (job.Type == api.JobTypeSystem) {
			t.Errorf("%s: a plugin of type %s in a %s job", path, p.Type, job.Type)
		}
	}
	if kinds != "controller node " && kinds != "monolith " {
		t.Errorf("%s has plugins of the types %s", dir, kinds)
	}
	return plugin
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
