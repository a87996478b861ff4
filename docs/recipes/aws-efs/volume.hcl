id           = "efs-data"
name         = "efs-data"
type         = "csi"
plugin_id    = "aws-efs"
capacity_min = "1GiB" # the driver needs a number and sets no limit

capability {
  access_mode     = "multi-node-multi-writer"
  attachment_mode = "file-system"
}

parameters {
  provisioningMode = "efs-ap"
  fileSystemId     = "fs-12345678"
  directoryPerms   = "700"
}
