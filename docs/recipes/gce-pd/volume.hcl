id           = "pd-data"
name         = "pd-data"
type         = "csi"
plugin_id    = "gce-pd"
capacity_min = "10GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

parameters {
  type = "pd-balanced"
}

topology_request {
  required {
    topology {
      segments {
        "topology.gke.io/zone" = "europe-west3-a"
      }
    }
  }
}

mount_options {
  fs_type = "ext4"
}
