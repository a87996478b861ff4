package artifacts

import "context"

// Prepare installs the program.
func (f *Fetcher) Prepare(ctx context.Context) error {
	_, err := f.install(ctx)
	return err
}

// Program is the path of the program.
func (f *Fetcher) Program() string { return f.program.path }

// Use uses another program, in the namespaces of the agent unless apart is set.
func (f *Fetcher) Use(path string, apart bool) {
	f.program.path = path
	if !apart {
		f.program.namespaces = 0
	}
}

// LimitCache sets the size of the cache.
func (f *Fetcher) LimitCache(bytes int64) { f.cache.max = bytes }

// Share uses the program that another fetcher has installed.
func (f *Fetcher) Share(of *Fetcher) { f.program = of.program }
