// Package defaults holds the defaults of fields that a job leaves out. Readers decode over them: before a block is
// decoded, [Surroundings.Prefill] fills its struct, then the block's values overwrite it. [Canonicalize] adds the
// blocks that were not written at all.
package defaults

import (
	"math"
	"reflect"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// restartDefault is the restart policy of a job type: batch kinds may try more often.
func restartDefault(jobType string) api.RestartPolicy {
	p := api.RestartPolicy{Attempts: 2, Interval: 30 * time.Minute, Delay: 15 * time.Second, Mode: api.RestartPolicyModeFail}
	if jobType == api.JobTypeBatch || jobType == api.JobTypeSysbatch {
		p.Attempts, p.Interval = 3, 24*time.Hour
	}
	return p
}

func rescheduleDefault(jobType string) api.ReschedulePolicy {
	if jobType == api.JobTypeBatch {
		return api.ReschedulePolicy{Attempts: 1, Interval: 24 * time.Hour, Delay: 5 * time.Second, DelayFunction: "constant"}
	}
	return api.ReschedulePolicy{Delay: 30 * time.Second, DelayFunction: "exponential", MaxDelay: time.Hour, Unlimited: true}
}

func updateDefault() api.UpdateStrategy {
	return api.UpdateStrategy{
		Stagger: 30 * time.Second, MaxParallel: 1, HealthCheck: "checks", MinHealthyTime: 10 * time.Second,
		HealthyDeadline: 5 * time.Minute, ProgressDeadline: 10 * time.Minute,
	}
}

func migrateDefault() api.MigrateStrategy {
	return api.MigrateStrategy{MaxParallel: 1, HealthCheck: "checks", MinHealthyTime: 10 * time.Second, HealthyDeadline: 5 * time.Minute}
}

// updates reports whether jobs of the type are rolled out, reschedules whether they are placed again.
func updates(jobType string) bool {
	return jobType == api.JobTypeService || jobType == api.JobTypeSystem
}

func reschedules(jobType string) bool {
	return jobType == api.JobTypeService || jobType == api.JobTypeBatch
}

// ScalingBlock is the name of blocks that scale. Of a group's, Prefill sees just the name, of a task's a label too.
const ScalingBlock = "scaling"

// Surroundings are the blocks around that blocks inside start from.
type Surroundings struct {
	restart *api.RestartPolicy
	update  *api.UpdateStrategy
}

// Inherit keeps the values of a decoded struct that the structs inside it inherit.
func (s *Surroundings) Inherit(dst reflect.Value) {
	switch v := dst.Addr().Interface().(type) {
	case *api.TaskGroup:
		if v.RestartPolicy != nil {
			s.restart = v.RestartPolicy
		}
	case *api.Job:
		if v.Update != nil {
			s.update = v.Update
		}
	}
}

// countUnsaid stands for the count of a group without one, and minUnsaid for its minimum, until the whole group is
// read.
const (
	countUnsaid = math.MinInt
	minUnsaid   = math.MinInt64
)

// Complete completes an item, of which all is read, with the defaults that depend on the rest of it.
func Complete(item any) {
	g, ok := item.(*api.TaskGroup)
	if !ok {
		return
	}
	s := g.Scaling
	if g.Count == countUnsaid {
		g.Count = 1
		if s != nil && s.Min > 1 {
			g.Count = int(s.Min)
		}
	}
	if s != nil && s.Min == minUnsaid {
		s.Min = int64(g.Count)
	}
}

// Prefill puts the defaults into a new item before it is decoded over. block is its name in files, jobType the type of
// the job around it.
func (s Surroundings) Prefill(item any, block, jobType string) {
	switch v := item.(type) {
	case *api.Job:
		v.Type, v.Priority = jobType, api.JobDefaultPriority
	case *api.TaskGroup:
		v.Count = countUnsaid
	case *api.Task:
		v.KillTimeout = 5 * time.Second
	case *api.RestartPolicy:
		*v = restartDefault(jobType)
		if s.restart != nil {
			*v = *s.restart
		}
	case *api.UpdateStrategy:
		*v = updateDefault()
		if s.update != nil {
			*v = *s.update
		}
	case *api.ReschedulePolicy:
		*v = rescheduleDefault(jobType)
	case *api.MigrateStrategy:
		*v = migrateDefault()
	case *api.DisconnectStrategy:
		best := api.ReconcileOption(api.ReconcileOptionBestScore)
		v.Replace, v.Reconcile = true, &best
	case *api.EphemeralDisk:
		v.SizeMB = 300
	case *api.Resources:
		v.CPU, v.MemoryMB = 100, 300
	case *api.LogConfig:
		v.MaxFiles, v.MaxFileSizeMB = 10, 10
	case *api.CSIPluginConfig:
		v.MountDir, v.StagePublishBaseDir, v.HealthTimeout = "/csi", "/local/csi", 30*time.Second
	case *api.Affinity:
		v.Weight = 50
	case *api.Spread:
		v.Weight = 50
	case *api.VolumeMount:
		v.PropagationMode = api.VolumeMountPropagationPrivate
	case *api.ScalingPolicy:
		if block == ScalingBlock {
			v.Enabled, v.Min = true, minUnsaid
		}
	case *api.RequestedDevice:
		v.Count = 1
	default:
		prefillLater(item)
	}
}

// prefillLater has the defaults of blocks whose features come later.
func prefillLater(item any) {
	switch v := item.(type) {
	case *api.Template:
		v.ChangeMode, v.Splay, v.Perms, v.LeftDelim, v.RightDelim = "restart", 5*time.Second, "0644", "{{", "}}"
	case *api.ChangeScript:
		v.Timeout = 5 * time.Second
	case *api.TaskArtifact:
		v.GetterMode, v.RelativeDest = "any", "local/"
	case *api.Vault:
		v.Env, v.ChangeMode, v.Cluster = true, "restart", "default"
	case *api.Consul:
		v.Cluster = "default"
	case *api.Service:
		v.AddressMode, v.OnUpdate, v.Provider, v.Cluster = "auto", "require_healthy", "consul", "default"
	case *api.CheckRestart:
		v.Grace = time.Second
	case *api.PeriodicConfig:
		v.Enabled, v.SpecType, v.TimeZone = true, "cron", "UTC"
	case *api.MultiregionRegion:
		v.Count = 1
	case *api.ParameterizedJobConfig:
		v.Payload = "optional"
	}
}

// Canonicalize completes a job with the defaults of its unset fields. It is idempotent.
func Canonicalize(j *api.Job) {
	setDefault(&j.Name, j.ID)
	setDefault(&j.Region, api.GlobalRegion)
	setDefault(&j.Namespace, api.DefaultNamespace)
	setDefault(&j.Type, api.JobTypeService)
	if j.Priority == 0 {
		j.Priority = api.JobDefaultPriority
	}
	if updates(j.Type) && j.Update == nil {
		u := updateDefault()
		j.Update = &u
	}
	if !updates(j.Type) && j.Update != nil && *j.Update == (api.UpdateStrategy{}) {
		j.Update = nil // as it is read, and sent back
	}
	for _, g := range j.TaskGroups {
		canonicalizeGroup(j, g)
	}
}

func canonicalizeGroup(j *api.Job, g *api.TaskGroup) {
	if g.RestartPolicy == nil {
		p := restartDefault(j.Type)
		g.RestartPolicy = &p
	}
	if g.ReschedulePolicy == nil && reschedules(j.Type) {
		p := rescheduleDefault(j.Type)
		g.ReschedulePolicy = &p
	}
	if g.Update == nil && j.Update != nil && updates(j.Type) {
		u := *j.Update
		g.Update = &u
	}
	if g.Migrate == nil && j.Type == api.JobTypeService {
		m := migrateDefault()
		g.Migrate = &m
	}
	if g.EphemeralDisk == nil {
		g.EphemeralDisk = &api.EphemeralDisk{SizeMB: 300}
	}
	for name, req := range g.Volumes {
		if req != nil && req.Name == "" {
			named := *req
			named.Name = name
			g.Volumes[name] = &named
		}
	}
	if g.Scaling != nil {
		setDefault(&g.Scaling.Type, "horizontal")
	}
	canonicalizeServices(g.Services, j.Name+"-"+g.Name+"-group")
	for _, t := range g.Tasks {
		canonicalizeTask(j, g, t)
	}
}

func canonicalizeTask(j *api.Job, g *api.TaskGroup, t *api.Task) {
	if t.Resources == nil {
		t.Resources = &api.Resources{CPU: 100, MemoryMB: 300}
	}
	if t.Resources.Cores > 0 && t.Resources.CPU == 100 {
		t.Resources.CPU = 0
	}
	if t.LogConfig == nil {
		t.LogConfig = &api.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}
	}
	if t.RestartPolicy == nil {
		p := *g.RestartPolicy
		t.RestartPolicy = &p
	}
	if t.KillTimeout == 0 {
		t.KillTimeout = 5 * time.Second
	}
	if p := t.CSIPluginConfig; p != nil {
		setDefault(&p.MountDir, "/csi")
		setDefault(&p.StagePublishBaseDir, "/local/csi")
		if p.HealthTimeout == 0 {
			p.HealthTimeout = 30 * time.Second
		}
	}
	if t.Vault != nil {
		setDefault(&t.Vault.ChangeSignal, "SIGHUP")
		setDefault(&t.Vault.Cluster, "default")
	}
	canonicalizeServices(t.Services, j.Name+"-"+g.Name+"-"+t.Name)
}

func canonicalizeServices(services []*api.Service, name string) {
	for _, s := range services {
		setDefault(&s.Name, name)
		prefillEmpty(s)
		if s.Connect != nil && s.Connect.SidecarTask != nil {
			canonicalizeSidecar(s.Connect.SidecarTask)
		}
		for i := range s.Checks {
			setDefault(&s.Checks[i].OnUpdate, s.OnUpdate)
		}
	}
}

// prefillEmpty has the defaults where texts are empty: that is how programs send what they do not set.
func prefillEmpty(s *api.Service) {
	var d api.Service
	prefillLater(&d)
	setDefault(&s.AddressMode, d.AddressMode)
	setDefault(&s.OnUpdate, d.OnUpdate)
	setDefault(&s.Provider, d.Provider)
	setDefault(&s.Cluster, d.Cluster)
}

func canonicalizeSidecar(t *api.SidecarTask) {
	if t.KillTimeout == 0 {
		t.KillTimeout = 5 * time.Second
	}
	if t.LogConfig == nil {
		t.LogConfig = &api.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}
	}
}

func setDefault(s *string, value string) {
	if *s == "" {
		*s = value
	}
}
