# What the demo permits its team: to run jobs with volumes and to read their output.
namespace "default" {
  capabilities = ["list-jobs", "read-job", "submit-job", "read-logs", "csi-read-volume", "csi-mount-volume"]
}
plugin {
  policy = "read"
}
