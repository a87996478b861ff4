package client

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

const (
	// pagesMax is the number of pages of data from other nodes that are in memory at the same time. A page has up to 4 MiB.
	pagesMax = 4
	// pageWait limits the wait for one page.
	pageWait = 30 * time.Second
)

// diskPages reads a page of the data of an allocation on another node and passes it to use. An error of class fault.Unavailable
// means that no server replies. It implements [allocs.Pages].
func (c *Client) diskPages(ctx context.Context, r *api.DiskDataRequest, use func(*api.DiskDataResponse) error) error {
	select {
	case c.pages <- struct{}{}:
		defer func() { <-c.pages }()
	case <-ctx.Done():
		return ctx.Err()
	}
	page, err := c.diskPage(ctx, r)
	if err != nil {
		return err
	}
	return use(page)
}

func (c *Client) diskPage(ctx context.Context, r *api.DiskDataRequest) (*api.DiskDataResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, pageWait)
	defer cancel()
	asked := *r
	asked.NodeID, asked.NodeSecret, asked.Region = c.id, c.credential(), c.conf.Region
	page, err := wire.AllocDiskData.Call(ctx, afterRegistration{c.conf.Servers, c.registered, c.credential}, &asked)
	if err != nil && ctx.Err() != nil {
		return nil, fault.New(fault.Unavailable, "no server replies: %v", err)
	}
	return page, err
}
