package templates

import (
	"embed"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/internal/program"
)

const programName = "nomad-template"

//go:embed bin
var embedded embed.FS

// Bounds of templates.
const (
	memoryMax    = 256 << 20
	contentMax   = 16 << 20
	processorMax = 10 * time.Second
)

// Program is the program that renders templates. Its fields do not change after the first [Program.Renderer].
type Program struct {
	// Dir is the directory where the program is installed.
	Dir string
	// Denied are the functions that templates may not call, as patterns.
	Denied []string
	// MemoryMax bounds the bytes that templates may use, and ProcessorMax the processor time of one execution of a template;
	// 0 means 256 MiB and 10 s.
	MemoryMax    uint64
	ProcessorMax time.Duration
	// Wait is for templates without a wait of their own; Bounds, where it is not 0, bounds the waits of all.
	Wait, Bounds Wait
	// Calls is how services and variables are read.
	Calls Calls
	Log   hclog.Logger

	mu   sync.Mutex
	path string
}

// DeniedDefault are the functions that are denied when the configuration says nothing.
func DeniedDefault() []string { return []string{"executeTemplate", "plugin", "writeToFile"} }

// install returns the path of the program.
func (p *Program) install() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.path != "" {
		return p.path, nil
	}
	path, err := program.Install(embedded, programName, filepath.Clean(p.Dir))
	p.path = path
	return path, err
}

func (p *Program) bounds() (memory uint64, processor time.Duration) {
	memory, processor = p.MemoryMax, p.ProcessorMax
	if memory == 0 {
		memory = memoryMax
	}
	if processor == 0 {
		processor = processorMax
	}
	return memory, processor
}

// Wait is how long data must be unchanged before a template is rendered again. Max bounds that; 0 is no wait.
type Wait struct{ Min, Max time.Duration }

// wait returns the wait of a template.
func (p *Program) wait(own Wait) Wait {
	if own == (Wait{}) {
		own = p.Wait
	}
	if own.Min > 0 {
		own.Min = max(own.Min, p.Bounds.Min)
	}
	if most := p.Bounds.Max; most > 0 {
		own.Min, own.Max = min(own.Min, most), min(own.Max, most)
	}
	return own
}
