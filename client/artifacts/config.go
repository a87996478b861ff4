package artifacts

import (
	"strings"
	"time"
)

// Config limits downloads; it is the block artifact of the client's configuration. Limits of 0 mean no limit.
type Config struct {
	HTTPReadTimeout, GCSTimeout, GitTimeout, HgTimeout, S3Timeout time.Duration
	// HTTPMaxBytes limits the content of one response.
	HTTPMaxBytes int64
	// MaxFiles and MaxBytes limit the content of one archive.
	MaxFiles int
	MaxBytes int64
	// Unconfined leaves out the limits on what downloads can read and write; the rights of the user remain.
	Unconfined bool
	// ExtraPaths are paths that downloads can use in addition, such as "d:rx:/opt/git".
	ExtraPaths []string
	// Variables are the names of variables of the agent that downloads get.
	Variables []string

	// Dir contains the program and the cache.
	Dir string
	// Grace is the time to unpack, after the time limit of the download; 0 means half an hour.
	Grace time.Duration
}

// Default returns the limits of a node that configures none.
func Default() Config {
	const long, large = 30 * time.Minute, 100_000_000_000
	return Config{
		HTTPReadTimeout: long, GCSTimeout: long, GitTimeout: long, HgTimeout: long, S3Timeout: long,
		HTTPMaxBytes: large, MaxFiles: 4096, MaxBytes: large,
	}
}

// limit is how long a download from the source may take in all; 0 means no limit.
func (c Config) limit(source string) time.Duration {
	limit := c.HTTPReadTimeout
	switch scheme(source) {
	case "git":
		limit = c.GitTimeout
	case "hg":
		limit = c.HgTimeout
	case "s3":
		limit = c.S3Timeout
	case "gcs":
		limit = c.GCSTimeout
	}
	if limit == 0 {
		return 0
	}
	grace := c.Grace
	if grace == 0 {
		grace = 30 * time.Minute
	}
	return limit + grace
}

// scheme guesses how a source is downloaded.
func scheme(source string) string {
	if forced, _, ok := strings.Cut(source, "::"); ok {
		return forced
	}
	for prefix, kind := range map[string]string{"git@": "git", "github.com/": "git", "gitlab.com/": "git", "bitbucket.org/": "git", "ssh://": "git"} {
		if strings.HasPrefix(source, prefix) {
			return kind
		}
	}
	switch host, _, _ := strings.Cut(source, "/"); {
	case strings.HasSuffix(host, ".amazonaws.com"):
		return "s3"
	case strings.HasSuffix(host, ".googleapis.com"):
		return "gcs"
	}
	return "http"
}
