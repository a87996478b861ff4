package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	getter "github.com/hashicorp/go-getter"
	"golang.org/x/sys/unix"
)

// transports are the ways to reach a repository, by the program that makes the connection.
var transports = map[string]string{"git": "http https ssh git", "hg": "http https ssh", "s3": "http https", "gcs": "http https", "http": "http", "https": "https"}

// fetch downloads the source to the place of the content.
func fetch(ctx context.Context, req request) error {
	operator := proxied()
	if err := environment(req); err != nil {
		return err
	}
	if err := guardOthers(); err != nil {
		return err
	}
	header := http.Header{}
	for name, value := range req.Headers {
		header.Set(name, value)
	}
	client := &http.Client{Transport: newTransport(req.Insecure, operator, req.MaxBytes), CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if r.URL.Host != via[0].URL.Host { // headers may be credentials of the first host
			for name := range header {
				r.Header.Del(name)
			}
		}
		return redirect(r, via)
	}}
	web := &getter.HttpGetter{
		Client: client, Header: header, XTerraformGetDisabled: true,
		ReadTimeout: req.HTTP, HeadFirstTimeout: req.HTTP,
	}
	getters := map[string]getter.Getter{
		"http": web, "https": web,
		"git": &getter.GitGetter{Timeout: req.Git}, "hg": &getter.HgGetter{Timeout: req.Mercurial},
		"s3": &getter.S3Getter{Timeout: req.S3}, "gcs": &getter.GCSGetter{Timeout: req.GCS},
	}
	for name, g := range getters {
		getters[name] = &checked{Getter: g, ctx: ctx, allowed: transports[name], req: req}
	}
	c := &getter.Client{
		Ctx: ctx, Src: req.Source, Dst: content, Pwd: ".", Mode: modes[req.Mode],
		Detectors: []getter.Detector{
			new(getter.GitHubDetector), new(getter.GitLabDetector), new(getter.GitDetector), new(getter.BitBucketDetector),
			new(getter.S3Detector), new(getter.GCSDetector),
		},
		Getters: getters, Decompressors: getter.LimitedDecompressors(req.MaxFiles, req.MaxUnpacked), Insecure: req.Insecure,
	}
	if err := c.Get(); err != nil {
		return plain(err)
	}
	if _, err := os.Lstat(content); err != nil {
		return errors.New("the source contains nothing")
	}
	return nil
}

var modes = map[string]getter.ClientMode{"": getter.ClientModeAny, "any": getter.ClientModeAny, "file": getter.ClientModeFile, "dir": getter.ClientModeDir}

// plain shortens the error of a checksum to one line.
func plain(err error) error {
	var sum *getter.ChecksumError
	if errors.As(err, &sum) {
		return fmt.Errorf("checksums did not match: expected %x, got %x", sum.Expected, sum.Actual)
	}
	return err
}

// reach returns the path of the temporary directory, or an error if the user cannot enter its parents.
func reach() (string, error) {
	dir, err := filepath.Abs(tmpDir)
	if err == nil {
		err = unix.Access(dir, unix.X_OK)
	}
	if err != nil {
		return "", fmt.Errorf("user %d cannot reach %s: let others enter its parent directories (chmod o+x): %w", os.Getuid(), dir, err)
	}
	return dir, nil
}

// environment sets the variables that the programs of the download need.
func environment(req request) error {
	dir, err := reach()
	if err != nil {
		dir = tmpDir // enough for all but other programs
	}
	ssh := "ssh -o BatchMode=yes"
	vars := map[string]string{
		"HOME": dir, "TMPDIR": dir, "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "http:https:ssh:git", "HGPLAIN": "1",
	}
	if req.Insecure {
		vars["GIT_SSL_NO_VERIFY"] = "1"
		ssh += " -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
	}
	vars["GIT_SSH_COMMAND"] = ssh
	for name, value := range vars {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// checked is a getter that connects to allowed addresses only, and knows the cached file.
type checked struct {
	getter.Getter
	ctx     context.Context
	allowed string
	req     request
}

func (c *checked) check(u *url.URL) error {
	if !strings.Contains(" "+c.allowed+" ", " "+u.Scheme+" ") || u.Scheme == "" {
		return fmt.Errorf("a source of scheme %q is refused: use one of %s", u.Scheme, c.allowed)
	}
	if strings.Contains(c.allowed, "ssh") { // another program
		if _, err := reach(); err != nil {
			return err
		}
	}
	return checkHost(c.ctx, u.Hostname())
}

// ClientMode reports whether the source is a file or a directory.
func (c *checked) ClientMode(u *url.URL) (getter.ClientMode, error) {
	if err := c.check(u); err != nil {
		return 0, err
	}
	return c.Getter.ClientMode(u)
}

// Get downloads a directory.
func (c *checked) Get(dst string, u *url.URL) error {
	if err := c.check(u); err != nil {
		return err
	}
	return c.Getter.Get(dst, u)
}

// GetFile downloads a file, or takes the cached one.
func (c *checked) GetFile(dst string, u *url.URL) error {
	if c.req.Cached {
		return copyCached(dst)
	}
	if err := c.check(u); err != nil {
		return err
	}
	if err := c.Getter.GetFile(dst, u); err != nil || !c.req.Keep {
		return err
	}
	return os.Link(dst, kept)
}

func copyCached(dst string) error {
	from := os.NewFile(3, "cached artifact")
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	to, err := os.Create(dst)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
