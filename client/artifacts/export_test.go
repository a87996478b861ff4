package artifacts

import "context"

// Prepare installs the program.
func (f *Fetcher) Prepare(ctx context.Context) error {
	_, err := f.install(ctx)
	return err
}

// Share uses the program that another fetcher has installed.
func (f *Fetcher) Share(of *Fetcher) { f.program = of.program }
