id           = "nfs-data"
name         = "nfs-data"
type         = "csi"
plugin_id    = "nfs"
capacity_min = "10GiB"

capability {
  access_mode     = "multi-node-multi-writer"
  attachment_mode = "file-system"
}

parameters {
  server = "nfs.example.com"
  share  = "/export"
}

mount_options {
  mount_flags = ["nfsvers=4.1", "hard"]
}
