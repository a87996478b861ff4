id           = "smb-data"
name         = "smb-data"
type         = "csi"
plugin_id    = "smb"
capacity_min = "10GiB"

capability {
  access_mode     = "multi-node-multi-writer"
  attachment_mode = "file-system"
}

# Items: username, password and, if the server has one, domain.
secrets_from = "csi/smb"

parameters {
  source = "//smb.example.com/share"
}

mount_options {
  mount_flags = ["vers=3.0", "dir_mode=0770", "file_mode=0660"]
}
