//! The fields of internal types: a flat table, one constant per type.
//!
//! Each line: the name on the wire, the name when printed, and what the field holds; `o` marks
//! fields left out when empty.

use super::Ty::{Any, Bool, Inline, Int, IntOrString, List, Map, Opt, Quantity, Str, Struct, Time};
use super::{Field, f, o};

pub(crate) const AFFINITY: &[Field] = &[
    f("nodeAffinity", "NodeAffinity", Opt(&Struct(NODE_AFFINITY))),
    f("podAffinity", "PodAffinity", Opt(&Struct(POD_AFFINITY))),
    f("podAntiAffinity", "PodAntiAffinity", Opt(&Struct(POD_ANTI_AFFINITY))),
];

pub(crate) const APP_ARMOR_PROFILE: &[Field] =
    &[f("type", "Type", Str), f("localhostProfile", "LocalhostProfile", Opt(&Str))];

pub(crate) const AUDIT_ANNOTATION: &[Field] =
    &[f("key", "Key", Str), f("valueExpression", "ValueExpression", Str)];

pub(crate) const AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: &[Field] = &[
    f("volumeID", "VolumeID", Str),
    f("fsType", "FSType", Str),
    f("partition", "Partition", Int),
    f("readOnly", "ReadOnly", Bool),
];

pub(crate) const AZURE_DISK_VOLUME_SOURCE: &[Field] = &[
    f("diskName", "DiskName", Str),
    f("diskURI", "DataDiskURI", Str),
    f("cachingMode", "CachingMode", Opt(&Str)),
    f("fsType", "FSType", Opt(&Str)),
    f("readOnly", "ReadOnly", Opt(&Bool)),
    f("kind", "Kind", Opt(&Str)),
];

pub(crate) const AZURE_FILE_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    f("secretName", "SecretName", Str),
    f("shareName", "ShareName", Str),
    f("readOnly", "ReadOnly", Bool),
    f("secretNamespace", "SecretNamespace", Opt(&Str)),
];

pub(crate) const AZURE_FILE_VOLUME_SOURCE: &[Field] = &[
    f("secretName", "SecretName", Str),
    f("shareName", "ShareName", Str),
    f("readOnly", "ReadOnly", Bool),
];

pub(crate) const CAPABILITIES: &[Field] =
    &[f("add", "Add", List(&Str)), f("drop", "Drop", List(&Str))];

pub(crate) const CAPACITY_REQUIREMENTS: &[Field] = &[f("requests", "Requests", Map(&Quantity))];

pub(crate) const CEL_DEVICE_SELECTOR: &[Field] = &[f("expression", "Expression", Str)];

pub(crate) const CEPH_FS_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    f("monitors", "Monitors", List(&Str)),
    f("path", "Path", Str),
    f("user", "User", Str),
    f("secretFile", "SecretFile", Str),
    f("secretRef", "SecretRef", Opt(&Struct(SECRET_REFERENCE))),
    f("readOnly", "ReadOnly", Bool),
];

pub(crate) const CEPH_FS_VOLUME_SOURCE: &[Field] = &[
    f("monitors", "Monitors", List(&Str)),
    f("path", "Path", Str),
    f("user", "User", Str),
    f("secretFile", "SecretFile", Str),
    f("secretRef", "SecretRef", Opt(&Struct(LOCAL_OBJECT_REFERENCE))),
    f("readOnly", "ReadOnly", Bool),
];

pub(crate) const CERTIFICATE_SIGNING_REQUEST_CONDITION: &[Field] = &[
    f("type", "Type", Str),
    f("status", "Status", Str),
    f("reason", "Reason", Str),
    f("message", "Message", Str),
    f("lastUpdateTime", "LastUpdateTime", Time),
    f("lastTransitionTime", "LastTransitionTime", Time),
];

pub(crate) const CINDER_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    f("volumeID", "VolumeID", Str),
    f("fsType", "FSType", Str),
    f("readOnly", "ReadOnly", Bool),
    f("secretRef", "SecretRef", Opt(&Struct(SECRET_REFERENCE))),
];

pub(crate) const CINDER_VOLUME_SOURCE: &[Field] = &[
    f("volumeID", "VolumeID", Str),
    f("fsType", "FSType", Str),
    f("readOnly", "ReadOnly", Bool),
    f("secretRef", "SecretRef", Opt(&Struct(LOCAL_OBJECT_REFERENCE))),
];

pub(crate) const CLUSTER_TRUST_BUNDLE_PROJECTION: &[Field] = &[
    f("name", "Name", Opt(&Str)),
    f("signerName", "SignerName", Opt(&Str)),
    f("labelSelector", "LabelSelector", Opt(&Struct(LABEL_SELECTOR))),
    f("optional", "Optional", Opt(&Bool)),
    f("path", "Path", Str),
];

pub(crate) const CONFIG_MAP_ENV_SOURCE: &[Field] =
    &[f("name", "Name", Str), f("optional", "Optional", Opt(&Bool))];

pub(crate) const CONFIG_MAP_KEY_SELECTOR: &[Field] =
    &[f("name", "Name", Str), f("key", "Key", Str), f("optional", "Optional", Opt(&Bool))];

pub(crate) const CONFIG_MAP_PROJECTION: &[Field] = &[
    f("name", "Name", Str),
    f("items", "Items", List(&Struct(KEY_TO_PATH))),
    f("optional", "Optional", Opt(&Bool)),
];

pub(crate) const CONFIG_MAP_VOLUME_SOURCE: &[Field] = &[
    f("name", "Name", Str),
    f("items", "Items", List(&Struct(KEY_TO_PATH))),
    f("defaultMode", "DefaultMode", Opt(&Int)),
    f("optional", "Optional", Opt(&Bool)),
];

pub(crate) const CONTAINER: &[Field] = &[
    f("name", "Name", Str),
    f("image", "Image", Str),
    f("command", "Command", List(&Str)),
    f("args", "Args", List(&Str)),
    f("workingDir", "WorkingDir", Str),
    f("ports", "Ports", List(&Struct(CONTAINER_PORT))),
    f("envFrom", "EnvFrom", List(&Struct(ENV_FROM_SOURCE))),
    f("env", "Env", List(&Struct(ENV_VAR))),
    f("resources", "Resources", Struct(RESOURCE_REQUIREMENTS)),
    f("resizePolicy", "ResizePolicy", List(&Struct(CONTAINER_RESIZE_POLICY))),
    f("restartPolicy", "RestartPolicy", Opt(&Str)),
    f("restartPolicyRules", "RestartPolicyRules", List(&Struct(CONTAINER_RESTART_RULE))),
    f("volumeMounts", "VolumeMounts", List(&Struct(VOLUME_MOUNT))),
    f("volumeDevices", "VolumeDevices", List(&Struct(VOLUME_DEVICE))),
    f("livenessProbe", "LivenessProbe", Opt(&Struct(PROBE))),
    f("readinessProbe", "ReadinessProbe", Opt(&Struct(PROBE))),
    f("startupProbe", "StartupProbe", Opt(&Struct(PROBE))),
    f("lifecycle", "Lifecycle", Opt(&Struct(LIFECYCLE))),
    f("terminationMessagePath", "TerminationMessagePath", Str),
    f("terminationMessagePolicy", "TerminationMessagePolicy", Str),
    f("imagePullPolicy", "ImagePullPolicy", Str),
    f("securityContext", "SecurityContext", Opt(&Struct(SECURITY_CONTEXT))),
    f("stdin", "Stdin", Bool),
    f("stdinOnce", "StdinOnce", Bool),
    f("tty", "TTY", Bool),
];

pub(crate) const CONTAINER_PORT: &[Field] = &[
    f("name", "Name", Str),
    f("hostPort", "HostPort", Int),
    f("containerPort", "ContainerPort", Int),
    f("protocol", "Protocol", Str),
    f("hostIP", "HostIP", Str),
];

pub(crate) const CONTAINER_RESIZE_POLICY: &[Field] =
    &[f("resourceName", "ResourceName", Str), f("restartPolicy", "RestartPolicy", Str)];

pub(crate) const CONTAINER_RESTART_RULE: &[Field] = &[
    f("action", "Action", Str),
    f("exitCodes", "ExitCodes", Opt(&Struct(CONTAINER_RESTART_RULE_ON_EXIT_CODES))),
];

pub(crate) const CONTAINER_RESTART_RULE_ON_EXIT_CODES: &[Field] =
    &[f("operator", "Operator", Str), f("values", "Values", List(&Int))];

pub(crate) const CSI_NODE_DRIVER: &[Field] = &[
    f("name", "Name", Str),
    f("nodeID", "NodeID", Str),
    f("topologyKeys", "TopologyKeys", List(&Str)),
    f("allocatable", "Allocatable", Opt(&Struct(VOLUME_NODE_RESOURCES))),
];

pub(crate) const CSI_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    f("driver", "Driver", Str),
    f("volumeHandle", "VolumeHandle", Str),
    f("readOnly", "ReadOnly", Bool),
    f("fsType", "FSType", Str),
    f("volumeAttributes", "VolumeAttributes", Map(&Str)),
    f("controllerPublishSecretRef", "ControllerPublishSecretRef", Opt(&Struct(SECRET_REFERENCE))),
    f("nodeStageSecretRef", "NodeStageSecretRef", Opt(&Struct(SECRET_REFERENCE))),
    f("nodePublishSecretRef", "NodePublishSecretRef", Opt(&Struct(SECRET_REFERENCE))),
    f("controllerExpandSecretRef", "ControllerExpandSecretRef", Opt(&Struct(SECRET_REFERENCE))),
    f("nodeExpandSecretRef", "NodeExpandSecretRef", Opt(&Struct(SECRET_REFERENCE))),
];

pub(crate) const CSI_VOLUME_SOURCE: &[Field] = &[
    f("driver", "Driver", Str),
    f("readOnly", "ReadOnly", Opt(&Bool)),
    f("fsType", "FSType", Opt(&Str)),
    f("volumeAttributes", "VolumeAttributes", Map(&Str)),
    f("nodePublishSecretRef", "NodePublishSecretRef", Opt(&Struct(LOCAL_OBJECT_REFERENCE))),
];

pub(crate) const DAEMON_SET_UPDATE_STRATEGY: &[Field] = &[
    f("type", "Type", Str),
    f("rollingUpdate", "RollingUpdate", Opt(&Struct(ROLLING_UPDATE_DAEMON_SET))),
];

pub(crate) const DEPLOYMENT_STRATEGY: &[Field] = &[
    f("type", "Type", Str),
    f("rollingUpdate", "RollingUpdate", Opt(&Struct(ROLLING_UPDATE_DEPLOYMENT))),
];

pub(crate) const DEVICE_CLAIM: &[Field] = &[
    f("requests", "Requests", List(&Struct(DEVICE_REQUEST))),
    f("constraints", "Constraints", List(&Struct(DEVICE_CONSTRAINT))),
    f("config", "Config", List(&Struct(DEVICE_CLAIM_CONFIGURATION))),
];

pub(crate) const DEVICE_CLAIM_CONFIGURATION: &[Field] = &[
    f("requests", "Requests", List(&Str)),
    f("opaque", "Opaque", Opt(&Struct(OPAQUE_DEVICE_CONFIGURATION))),
];

pub(crate) const DEVICE_CONSTRAINT: &[Field] = &[
    f("requests", "Requests", List(&Str)),
    f("matchAttribute", "MatchAttribute", Opt(&Str)),
    f("distinctAttribute", "DistinctAttribute", Opt(&Str)),
];

pub(crate) const DEVICE_REQUEST: &[Field] = &[
    f("name", "Name", Str),
    f("exactly", "Exactly", Opt(&Struct(EXACT_DEVICE_REQUEST))),
    f("firstAvailable", "FirstAvailable", List(&Struct(DEVICE_SUB_REQUEST))),
];

pub(crate) const DEVICE_SELECTOR: &[Field] = &[f("cel", "CEL", Opt(&Struct(CEL_DEVICE_SELECTOR)))];

pub(crate) const DEVICE_SUB_REQUEST: &[Field] = &[
    f("name", "Name", Str),
    f("deviceClassName", "DeviceClassName", Str),
    f("selectors", "Selectors", List(&Struct(DEVICE_SELECTOR))),
    f("allocationMode", "AllocationMode", Str),
    f("count", "Count", Int),
    f("tolerations", "Tolerations", List(&Struct(DEVICE_TOLERATION))),
    f("capacity", "Capacity", Opt(&Struct(CAPACITY_REQUIREMENTS))),
];

pub(crate) const DEVICE_TOLERATION: &[Field] = &[
    f("key", "Key", Str),
    f("operator", "Operator", Str),
    f("value", "Value", Str),
    f("effect", "Effect", Str),
    f("tolerationSeconds", "TolerationSeconds", Opt(&Int)),
];

pub(crate) const DOWNWARD_API_PROJECTION: &[Field] =
    &[f("items", "Items", List(&Struct(DOWNWARD_API_VOLUME_FILE)))];

pub(crate) const DOWNWARD_API_VOLUME_FILE: &[Field] = &[
    f("path", "Path", Str),
    f("fieldRef", "FieldRef", Opt(&Struct(OBJECT_FIELD_SELECTOR))),
    f("resourceFieldRef", "ResourceFieldRef", Opt(&Struct(RESOURCE_FIELD_SELECTOR))),
    f("mode", "Mode", Opt(&Int)),
];

pub(crate) const DOWNWARD_API_VOLUME_SOURCE: &[Field] = &[
    f("items", "Items", List(&Struct(DOWNWARD_API_VOLUME_FILE))),
    f("defaultMode", "DefaultMode", Opt(&Int)),
];

pub(crate) const EMPTY_DIR_VOLUME_SOURCE: &[Field] =
    &[f("medium", "Medium", Str), f("sizeLimit", "SizeLimit", Opt(&Quantity))];

pub(crate) const ENV_FROM_SOURCE: &[Field] = &[
    f("prefix", "Prefix", Str),
    f("configMapRef", "ConfigMapRef", Opt(&Struct(CONFIG_MAP_ENV_SOURCE))),
    f("secretRef", "SecretRef", Opt(&Struct(SECRET_ENV_SOURCE))),
];

pub(crate) const ENV_VAR: &[Field] = &[
    f("name", "Name", Str),
    f("value", "Value", Str),
    f("valueFrom", "ValueFrom", Opt(&Struct(ENV_VAR_SOURCE))),
];

pub(crate) const ENV_VAR_SOURCE: &[Field] = &[
    f("fieldRef", "FieldRef", Opt(&Struct(OBJECT_FIELD_SELECTOR))),
    f("resourceFieldRef", "ResourceFieldRef", Opt(&Struct(RESOURCE_FIELD_SELECTOR))),
    f("configMapKeyRef", "ConfigMapKeyRef", Opt(&Struct(CONFIG_MAP_KEY_SELECTOR))),
    f("secretKeyRef", "SecretKeyRef", Opt(&Struct(SECRET_KEY_SELECTOR))),
    f("fileKeyRef", "FileKeyRef", Opt(&Struct(FILE_KEY_SELECTOR))),
];

pub(crate) const EPHEMERAL_CONTAINER: &[Field] = &[
    f("name", "Name", Str),
    f("image", "Image", Str),
    f("command", "Command", List(&Str)),
    f("args", "Args", List(&Str)),
    f("workingDir", "WorkingDir", Str),
    f("ports", "Ports", List(&Struct(CONTAINER_PORT))),
    f("envFrom", "EnvFrom", List(&Struct(ENV_FROM_SOURCE))),
    f("env", "Env", List(&Struct(ENV_VAR))),
    f("resources", "Resources", Struct(RESOURCE_REQUIREMENTS)),
    f("resizePolicy", "ResizePolicy", List(&Struct(CONTAINER_RESIZE_POLICY))),
    f("restartPolicy", "RestartPolicy", Opt(&Str)),
    f("restartPolicyRules", "RestartPolicyRules", List(&Struct(CONTAINER_RESTART_RULE))),
    f("volumeMounts", "VolumeMounts", List(&Struct(VOLUME_MOUNT))),
    f("volumeDevices", "VolumeDevices", List(&Struct(VOLUME_DEVICE))),
    f("livenessProbe", "LivenessProbe", Opt(&Struct(PROBE))),
    f("readinessProbe", "ReadinessProbe", Opt(&Struct(PROBE))),
    f("startupProbe", "StartupProbe", Opt(&Struct(PROBE))),
    f("lifecycle", "Lifecycle", Opt(&Struct(LIFECYCLE))),
    f("terminationMessagePath", "TerminationMessagePath", Str),
    f("terminationMessagePolicy", "TerminationMessagePolicy", Str),
    f("imagePullPolicy", "ImagePullPolicy", Str),
    f("securityContext", "SecurityContext", Opt(&Struct(SECURITY_CONTEXT))),
    f("stdin", "Stdin", Bool),
    f("stdinOnce", "StdinOnce", Bool),
    f("tty", "TTY", Bool),
    f("targetContainerName", "TargetContainerName", Str),
];

pub(crate) const EPHEMERAL_VOLUME_SOURCE: &[Field] = &[f(
    "volumeClaimTemplate",
    "VolumeClaimTemplate",
    Opt(&Struct(PERSISTENT_VOLUME_CLAIM_TEMPLATE)),
)];

pub(crate) const EVENT_SOURCE: &[Field] =
    &[f("component", "Component", Str), f("host", "Host", Str)];

pub(crate) const EXACT_DEVICE_REQUEST: &[Field] = &[
    f("deviceClassName", "DeviceClassName", Str),
    f("selectors", "Selectors", List(&Struct(DEVICE_SELECTOR))),
    f("allocationMode", "AllocationMode", Str),
    f("count", "Count", Int),
    f("adminAccess", "AdminAccess", Opt(&Bool)),
    f("tolerations", "Tolerations", List(&Struct(DEVICE_TOLERATION))),
    f("capacity", "Capacity", Opt(&Struct(CAPACITY_REQUIREMENTS))),
];

pub(crate) const EXEC_ACTION: &[Field] = &[f("command", "Command", List(&Str))];

pub(crate) const EXEMPT_PRIORITY_LEVEL_CONFIGURATION: &[Field] = &[
    f("nominalConcurrencyShares", "NominalConcurrencyShares", Opt(&Int)),
    f("lendablePercent", "LendablePercent", Opt(&Int)),
];

pub(crate) const FC_VOLUME_SOURCE: &[Field] = &[
    f("targetWWNs", "TargetWWNs", List(&Str)),
    f("lun", "Lun", Opt(&Int)),
    f("fsType", "FSType", Str),
    f("readOnly", "ReadOnly", Bool),
    f("wwids", "WWIDs", List(&Str)),
];

pub(crate) const FILE_KEY_SELECTOR: &[Field] = &[
    f("volumeName", "VolumeName", Str),
    f("path", "Path", Str),
    f("key", "Key", Str),
    f("optional", "Optional", Opt(&Bool)),
];

pub(crate) const FLEX_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    f("driver", "Driver", Str),
    f("fsType", "FSType", Str),
    f("secretRef", "SecretRef", Opt(&Struct(SECRET_REFERENCE))),
    f("readOnly", "ReadOnly", Bool),
    f("options", "Options", Map(&Str)),
];

pub(crate) const FLEX_VOLUME_SOURCE: &[Field] = &[
    f("driver", "Driver", Str),
    f("fsType", "FSType", Str),
    f("secretRef", "SecretRef", Opt(&Struct(LOCAL_OBJECT_REFERENCE))),
    f("readOnly", "ReadOnly", Bool),
    f("options", "Options", Map(&Str)),
];

pub(crate) const FLOCKER_VOLUME_SOURCE: &[Field] =
    &[f("datasetName", "DatasetName", Str), f("datasetUUID", "DatasetUUID", Str)];

pub(crate) const FLOW_DISTINGUISHER_METHOD: &[Field] = &[f("type", "Type", Str)];

pub(crate) const FLOW_SCHEMA_SPEC: &[Field] = &[
    f(
        "priorityLevelConfiguration",
        "PriorityLevelConfiguration",
        Struct(PRIORITY_LEVEL_CONFIGURATION_REFERENCE),
    ),
    f("matchingPrecedence", "MatchingPrecedence", Int),
    f("distinguisherMethod", "DistinguisherMethod", Opt(&Struct(FLOW_DISTINGUISHER_METHOD))),
    f("rules", "Rules", List(&Struct(POLICY_RULES_WITH_SUBJECTS))),
];

pub(crate) const GCE_PERSISTENT_DISK_VOLUME_SOURCE: &[Field] = &[
    f("pdName", "PDName", Str),
    f("fsType", "FSType", Str),
    f("partition", "Partition", Int),
    f("readOnly", "ReadOnly", Bool),
];

pub(crate) const GIT_REPO_VOLUME_SOURCE: &[Field] = &[
    f("repository", "Repository", Str),
    f("revision", "Revision", Str),
    f("directory", "Directory", Str),
];

pub(crate) const GLUSTERFS_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    f("endpoints", "EndpointsName", Str),
    f("path", "Path", Str),
    f("readOnly", "ReadOnly", Bool),
    f("endpointsNamespace", "EndpointsNamespace", Opt(&Str)),
];

pub(crate) const GLUSTERFS_VOLUME_SOURCE: &[Field] = &[
    f("endpoints", "EndpointsName", Str),
    f("path", "Path", Str),
    f("readOnly", "ReadOnly", Bool),
];

pub(crate) const GROUP_RESOURCE: &[Field] =
    &[f("group", "group", Str), f("resource", "resource", Str)];

pub(crate) const GROUP_SUBJECT: &[Field] = &[f("name", "Name", Str)];

pub(crate) const GRPC_ACTION: &[Field] =
    &[f("port", "Port", Int), f("service", "Service", Opt(&Str))];

pub(crate) const HOST_ALIAS: &[Field] =
    &[f("ip", "IP", Str), f("hostnames", "Hostnames", List(&Str))];

pub(crate) const HOST_IP: &[Field] = &[f("ip", "IP", Str)];

pub(crate) const HOST_PATH_VOLUME_SOURCE: &[Field] =
    &[f("path", "Path", Str), f("type", "Type", Opt(&Str))];

pub(crate) const HTTP_GET_ACTION: &[Field] = &[
    f("path", "Path", Str),
    f("port", "Port", IntOrString),
    f("host", "Host", Str),
    f("scheme", "Scheme", Str),
    f("httpHeaders", "HTTPHeaders", List(&Struct(HTTP_HEADER))),
];

pub(crate) const HTTP_HEADER: &[Field] = &[f("name", "Name", Str), f("value", "Value", Str)];

pub(crate) const IMAGE_VOLUME_SOURCE: &[Field] =
    &[f("reference", "Reference", Str), f("pullPolicy", "PullPolicy", Str)];

pub(crate) const ISCSI_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    f("targetPortal", "TargetPortal", Str),
    f("iqn", "IQN", Str),
    f("lun", "Lun", Int),
    f("iscsiInterface", "ISCSIInterface", Str),
    f("fsType", "FSType", Str),
    f("readOnly", "ReadOnly", Bool),
    f("portals", "Portals", List(&Str)),
    f("chapAuthDiscovery", "DiscoveryCHAPAuth", Bool),
    f("chapAuthSession", "SessionCHAPAuth", Bool),
    f("secretRef", "SecretRef", Opt(&Struct(SECRET_REFERENCE))),
    f("initiatorName", "InitiatorName", Opt(&Str)),
];

pub(crate) const ISCSI_VOLUME_SOURCE: &[Field] = &[
    f("targetPortal", "TargetPortal", Str),
    f("iqn", "IQN", Str),
    f("lun", "Lun", Int),
    f("iscsiInterface", "ISCSIInterface", Str),
    f("fsType", "FSType", Str),
    f("readOnly", "ReadOnly", Bool),
    f("portals", "Portals", List(&Str)),
    f("chapAuthDiscovery", "DiscoveryCHAPAuth", Bool),
    f("chapAuthSession", "SessionCHAPAuth", Bool),
    f("secretRef", "SecretRef", Opt(&Struct(LOCAL_OBJECT_REFERENCE))),
    f("initiatorName", "InitiatorName", Opt(&Str)),
];

pub(crate) const KEY_TO_PATH: &[Field] =
    &[f("key", "Key", Str), f("path", "Path", Str), f("mode", "Mode", Opt(&Int))];

pub(crate) const LABEL_SELECTOR: &[Field] = &[
    o("matchLabels", "matchLabels", Map(&Str)),
    o("matchExpressions", "matchExpressions", List(&Struct(LABEL_SELECTOR_REQUIREMENT))),
];

pub(crate) const LABEL_SELECTOR_REQUIREMENT: &[Field] =
    &[f("key", "key", Str), f("operator", "operator", Str), o("values", "values", List(&Str))];

pub(crate) const LIFECYCLE: &[Field] = &[
    f("postStart", "PostStart", Opt(&Struct(LIFECYCLE_HANDLER))),
    f("preStop", "PreStop", Opt(&Struct(LIFECYCLE_HANDLER))),
    f("stopSignal", "StopSignal", Opt(&Str)),
];

pub(crate) const LIFECYCLE_HANDLER: &[Field] = &[
    f("exec", "Exec", Opt(&Struct(EXEC_ACTION))),
    f("httpGet", "HTTPGet", Opt(&Struct(HTTP_GET_ACTION))),
    f("tcpSocket", "TCPSocket", Opt(&Struct(TCP_SOCKET_ACTION))),
    f("sleep", "Sleep", Opt(&Struct(SLEEP_ACTION))),
];

pub(crate) const LIMITED_PRIORITY_LEVEL_CONFIGURATION: &[Field] = &[
    f("nominalConcurrencyShares", "NominalConcurrencyShares", Int),
    f("limitResponse", "LimitResponse", Struct(LIMIT_RESPONSE)),
    f("lendablePercent", "LendablePercent", Opt(&Int)),
    f("borrowingLimitPercent", "BorrowingLimitPercent", Opt(&Int)),
];

pub(crate) const LIMIT_RESPONSE: &[Field] =
    &[f("type", "Type", Str), f("queuing", "Queuing", Opt(&Struct(QUEUING_CONFIGURATION)))];

pub(crate) const LOCAL_OBJECT_REFERENCE: &[Field] = &[f("name", "Name", Str)];

pub(crate) const LOCAL_VOLUME_SOURCE: &[Field] =
    &[f("path", "Path", Str), f("fsType", "FSType", Opt(&Str))];

pub(crate) const MANAGED_FIELDS_ENTRY: &[Field] = &[
    o("manager", "manager", Str),
    o("operation", "operation", Str),
    o("apiVersion", "apiVersion", Str),
    o("time", "time", Opt(&Time)),
    o("fieldsType", "fieldsType", Str),
    o("fieldsV1", "fieldsV1", Opt(&Any)),
    o("subresource", "subresource", Str),
];

pub(crate) const NFS_VOLUME_SOURCE: &[Field] =
    &[f("server", "Server", Str), f("path", "Path", Str), f("readOnly", "ReadOnly", Bool)];

pub(crate) const NODE_ADDRESS: &[Field] = &[f("type", "Type", Str), f("address", "Address", Str)];

pub(crate) const NODE_AFFINITY: &[Field] = &[
    f(
        "requiredDuringSchedulingIgnoredDuringExecution",
        "RequiredDuringSchedulingIgnoredDuringExecution",
        Opt(&Struct(NODE_SELECTOR)),
    ),
    f(
        "preferredDuringSchedulingIgnoredDuringExecution",
        "PreferredDuringSchedulingIgnoredDuringExecution",
        List(&Struct(PREFERRED_SCHEDULING_TERM)),
    ),
];

pub(crate) const NODE_SELECTOR: &[Field] =
    &[f("nodeSelectorTerms", "NodeSelectorTerms", List(&Struct(NODE_SELECTOR_TERM)))];

pub(crate) const NODE_SELECTOR_REQUIREMENT: &[Field] =
    &[f("key", "Key", Str), f("operator", "Operator", Str), f("values", "Values", List(&Str))];

pub(crate) const NODE_SELECTOR_TERM: &[Field] = &[
    f("matchExpressions", "MatchExpressions", List(&Struct(NODE_SELECTOR_REQUIREMENT))),
    f("matchFields", "MatchFields", List(&Struct(NODE_SELECTOR_REQUIREMENT))),
];

pub(crate) const NON_RESOURCE_ATTRIBUTES: &[Field] =
    &[f("path", "Path", Str), f("verb", "Verb", Str)];

pub(crate) const NON_RESOURCE_POLICY_RULE: &[Field] =
    &[f("verbs", "Verbs", List(&Str)), f("nonResourceURLs", "NonResourceURLs", List(&Str))];

pub(crate) const OBJECT_FIELD_SELECTOR: &[Field] =
    &[f("apiVersion", "APIVersion", Str), f("fieldPath", "FieldPath", Str)];

pub(crate) const OBJECT_META: &[Field] = &[
    o("name", "name", Str),
    o("generateName", "generateName", Str),
    o("namespace", "namespace", Str),
    o("selfLink", "selfLink", Str),
    o("uid", "uid", Str),
    o("resourceVersion", "resourceVersion", Str),
    o("generation", "generation", Int),
    o("creationTimestamp", "creationTimestamp", Time),
    o("deletionTimestamp", "deletionTimestamp", Opt(&Time)),
    o("deletionGracePeriodSeconds", "deletionGracePeriodSeconds", Opt(&Int)),
    o("labels", "labels", Map(&Str)),
    o("annotations", "annotations", Map(&Str)),
    o("ownerReferences", "ownerReferences", List(&Struct(OWNER_REFERENCE))),
    o("finalizers", "finalizers", List(&Str)),
    o("managedFields", "managedFields", List(&Struct(MANAGED_FIELDS_ENTRY))),
];

pub(crate) const OBJECT_REFERENCE: &[Field] = &[
    f("kind", "Kind", Str),
    f("namespace", "Namespace", Str),
    f("name", "Name", Str),
    f("uid", "UID", Str),
    f("apiVersion", "APIVersion", Str),
    f("resourceVersion", "ResourceVersion", Str),
    f("fieldPath", "FieldPath", Str),
];

pub(crate) const OPAQUE_DEVICE_CONFIGURATION: &[Field] =
    &[f("driver", "Driver", Str), f("parameters", "Parameters", Any)];

pub(crate) const OWNER_REFERENCE: &[Field] = &[
    f("apiVersion", "apiVersion", Str),
    f("kind", "kind", Str),
    f("name", "name", Str),
    f("uid", "uid", Str),
    o("controller", "controller", Opt(&Bool)),
    o("blockOwnerDeletion", "blockOwnerDeletion", Opt(&Bool)),
];

pub(crate) const PARENT_REFERENCE: &[Field] = &[
    f("group", "Group", Str),
    f("resource", "Resource", Str),
    f("namespace", "Namespace", Str),
    f("name", "Name", Str),
];

pub(crate) const PERSISTENT_VOLUME_CLAIM_SPEC: &[Field] = &[
    f("accessModes", "AccessModes", List(&Str)),
    f("selector", "Selector", Opt(&Struct(LABEL_SELECTOR))),
    f("resources", "Resources", Struct(VOLUME_RESOURCE_REQUIREMENTS)),
    f("volumeName", "VolumeName", Str),
    f("storageClassName", "StorageClassName", Opt(&Str)),
    f("volumeMode", "VolumeMode", Opt(&Str)),
    f("dataSource", "DataSource", Opt(&Struct(TYPED_LOCAL_OBJECT_REFERENCE))),
    f("dataSourceRef", "DataSourceRef", Opt(&Struct(TYPED_OBJECT_REFERENCE))),
    f("volumeAttributesClassName", "VolumeAttributesClassName", Opt(&Str)),
];

pub(crate) const PERSISTENT_VOLUME_CLAIM_TEMPLATE: &[Field] = &[
    f("metadata", "ObjectMeta", Inline(OBJECT_META)),
    f("spec", "Spec", Struct(PERSISTENT_VOLUME_CLAIM_SPEC)),
];

pub(crate) const PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: &[Field] =
    &[f("claimName", "ClaimName", Str), f("readOnly", "ReadOnly", Bool)];

pub(crate) const PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    f("gcePersistentDisk", "GCEPersistentDisk", Opt(&Struct(GCE_PERSISTENT_DISK_VOLUME_SOURCE))),
    f(
        "awsElasticBlockStore",
        "AWSElasticBlockStore",
        Opt(&Struct(AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)),
    ),
    f("hostPath", "HostPath", Opt(&Struct(HOST_PATH_VOLUME_SOURCE))),
    f("glusterfs", "Glusterfs", Opt(&Struct(GLUSTERFS_PERSISTENT_VOLUME_SOURCE))),
    f("nfs", "NFS", Opt(&Struct(NFS_VOLUME_SOURCE))),
    f("rbd", "RBD", Opt(&Struct(RBD_PERSISTENT_VOLUME_SOURCE))),
    f("quobyte", "Quobyte", Opt(&Struct(QUOBYTE_VOLUME_SOURCE))),
    f("iscsi", "ISCSI", Opt(&Struct(ISCSI_PERSISTENT_VOLUME_SOURCE))),
    f("flexVolume", "FlexVolume", Opt(&Struct(FLEX_PERSISTENT_VOLUME_SOURCE))),
    f("cinder", "Cinder", Opt(&Struct(CINDER_PERSISTENT_VOLUME_SOURCE))),
    f("cephfs", "CephFS", Opt(&Struct(CEPH_FS_PERSISTENT_VOLUME_SOURCE))),
    f("fc", "FC", Opt(&Struct(FC_VOLUME_SOURCE))),
    f("flocker", "Flocker", Opt(&Struct(FLOCKER_VOLUME_SOURCE))),
    f("azureFile", "AzureFile", Opt(&Struct(AZURE_FILE_PERSISTENT_VOLUME_SOURCE))),
    f("vsphereVolume", "VsphereVolume", Opt(&Struct(VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE))),
    f("azureDisk", "AzureDisk", Opt(&Struct(AZURE_DISK_VOLUME_SOURCE))),
    f(
        "photonPersistentDisk",
        "PhotonPersistentDisk",
        Opt(&Struct(PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)),
    ),
    f("portworxVolume", "PortworxVolume", Opt(&Struct(PORTWORX_VOLUME_SOURCE))),
    f("scaleIO", "ScaleIO", Opt(&Struct(SCALE_IO_PERSISTENT_VOLUME_SOURCE))),
    f("local", "Local", Opt(&Struct(LOCAL_VOLUME_SOURCE))),
    f("storageos", "StorageOS", Opt(&Struct(STORAGE_OS_PERSISTENT_VOLUME_SOURCE))),
    f("csi", "CSI", Opt(&Struct(CSI_PERSISTENT_VOLUME_SOURCE))),
];

pub(crate) const PERSISTENT_VOLUME_SPEC: &[Field] = &[
    f("capacity", "Capacity", Map(&Quantity)),
    f("gcePersistentDisk", "GCEPersistentDisk", Opt(&Struct(GCE_PERSISTENT_DISK_VOLUME_SOURCE))),
    f(
        "awsElasticBlockStore",
        "AWSElasticBlockStore",
        Opt(&Struct(AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)),
    ),
    f("hostPath", "HostPath", Opt(&Struct(HOST_PATH_VOLUME_SOURCE))),
    f("glusterfs", "Glusterfs", Opt(&Struct(GLUSTERFS_PERSISTENT_VOLUME_SOURCE))),
    f("nfs", "NFS", Opt(&Struct(NFS_VOLUME_SOURCE))),
    f("rbd", "RBD", Opt(&Struct(RBD_PERSISTENT_VOLUME_SOURCE))),
    f("quobyte", "Quobyte", Opt(&Struct(QUOBYTE_VOLUME_SOURCE))),
    f("iscsi", "ISCSI", Opt(&Struct(ISCSI_PERSISTENT_VOLUME_SOURCE))),
    f("flexVolume", "FlexVolume", Opt(&Struct(FLEX_PERSISTENT_VOLUME_SOURCE))),
    f("cinder", "Cinder", Opt(&Struct(CINDER_PERSISTENT_VOLUME_SOURCE))),
    f("cephfs", "CephFS", Opt(&Struct(CEPH_FS_PERSISTENT_VOLUME_SOURCE))),
    f("fc", "FC", Opt(&Struct(FC_VOLUME_SOURCE))),
    f("flocker", "Flocker", Opt(&Struct(FLOCKER_VOLUME_SOURCE))),
    f("azureFile", "AzureFile", Opt(&Struct(AZURE_FILE_PERSISTENT_VOLUME_SOURCE))),
    f("vsphereVolume", "VsphereVolume", Opt(&Struct(VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE))),
    f("azureDisk", "AzureDisk", Opt(&Struct(AZURE_DISK_VOLUME_SOURCE))),
    f(
        "photonPersistentDisk",
        "PhotonPersistentDisk",
        Opt(&Struct(PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)),
    ),
    f("portworxVolume", "PortworxVolume", Opt(&Struct(PORTWORX_VOLUME_SOURCE))),
    f("scaleIO", "ScaleIO", Opt(&Struct(SCALE_IO_PERSISTENT_VOLUME_SOURCE))),
    f("local", "Local", Opt(&Struct(LOCAL_VOLUME_SOURCE))),
    f("storageos", "StorageOS", Opt(&Struct(STORAGE_OS_PERSISTENT_VOLUME_SOURCE))),
    f("csi", "CSI", Opt(&Struct(CSI_PERSISTENT_VOLUME_SOURCE))),
    f("accessModes", "AccessModes", List(&Str)),
    f("claimRef", "ClaimRef", Opt(&Struct(OBJECT_REFERENCE))),
    f("persistentVolumeReclaimPolicy", "PersistentVolumeReclaimPolicy", Str),
    f("storageClassName", "StorageClassName", Str),
    f("mountOptions", "MountOptions", List(&Str)),
    f("volumeMode", "VolumeMode", Opt(&Str)),
    f("nodeAffinity", "NodeAffinity", Opt(&Struct(VOLUME_NODE_AFFINITY))),
    f("volumeAttributesClassName", "VolumeAttributesClassName", Opt(&Str)),
];

pub(crate) const PHOTON_PERSISTENT_DISK_VOLUME_SOURCE: &[Field] =
    &[f("pdID", "PdID", Str), f("fsType", "FSType", Str)];

pub(crate) const POD_AFFINITY: &[Field] = &[
    f(
        "requiredDuringSchedulingIgnoredDuringExecution",
        "RequiredDuringSchedulingIgnoredDuringExecution",
        List(&Struct(POD_AFFINITY_TERM)),
    ),
    f(
        "preferredDuringSchedulingIgnoredDuringExecution",
        "PreferredDuringSchedulingIgnoredDuringExecution",
        List(&Struct(WEIGHTED_POD_AFFINITY_TERM)),
    ),
];

pub(crate) const POD_AFFINITY_TERM: &[Field] = &[
    f("labelSelector", "LabelSelector", Opt(&Struct(LABEL_SELECTOR))),
    f("namespaces", "Namespaces", List(&Str)),
    f("topologyKey", "TopologyKey", Str),
    f("namespaceSelector", "NamespaceSelector", Opt(&Struct(LABEL_SELECTOR))),
    f("matchLabelKeys", "MatchLabelKeys", List(&Str)),
    f("mismatchLabelKeys", "MismatchLabelKeys", List(&Str)),
];

pub(crate) const POD_ANTI_AFFINITY: &[Field] = &[
    f(
        "requiredDuringSchedulingIgnoredDuringExecution",
        "RequiredDuringSchedulingIgnoredDuringExecution",
        List(&Struct(POD_AFFINITY_TERM)),
    ),
    f(
        "preferredDuringSchedulingIgnoredDuringExecution",
        "PreferredDuringSchedulingIgnoredDuringExecution",
        List(&Struct(WEIGHTED_POD_AFFINITY_TERM)),
    ),
];

pub(crate) const POD_CERTIFICATE_PROJECTION: &[Field] = &[
    f("signerName", "SignerName", Str),
    f("keyType", "KeyType", Str),
    f("maxExpirationSeconds", "MaxExpirationSeconds", Opt(&Int)),
    f("credentialBundlePath", "CredentialBundlePath", Str),
    f("keyPath", "KeyPath", Str),
    f("certificateChainPath", "CertificateChainPath", Str),
    f("userAnnotations", "UserAnnotations", Map(&Str)),
];

pub(crate) const POD_DISRUPTION_BUDGET_SPEC: &[Field] = &[
    f("minAvailable", "MinAvailable", Opt(&IntOrString)),
    f("selector", "Selector", Opt(&Struct(LABEL_SELECTOR))),
    f("maxUnavailable", "MaxUnavailable", Opt(&IntOrString)),
    f("unhealthyPodEvictionPolicy", "UnhealthyPodEvictionPolicy", Opt(&Str)),
];

pub(crate) const POD_DNS_CONFIG: &[Field] = &[
    f("nameservers", "Nameservers", List(&Str)),
    f("searches", "Searches", List(&Str)),
    f("options", "Options", List(&Struct(POD_DNS_CONFIG_OPTION))),
];

pub(crate) const POD_DNS_CONFIG_OPTION: &[Field] =
    &[f("name", "Name", Str), f("value", "Value", Opt(&Str))];

pub(crate) const POD_FAILURE_POLICY: &[Field] =
    &[f("rules", "Rules", List(&Struct(POD_FAILURE_POLICY_RULE)))];

pub(crate) const POD_FAILURE_POLICY_ON_EXIT_CODES_REQUIREMENT: &[Field] = &[
    f("containerName", "ContainerName", Opt(&Str)),
    f("operator", "Operator", Str),
    f("values", "Values", List(&Int)),
];

pub(crate) const POD_FAILURE_POLICY_ON_POD_CONDITIONS_PATTERN: &[Field] =
    &[f("type", "Type", Str), f("status", "Status", Str)];

pub(crate) const POD_FAILURE_POLICY_RULE: &[Field] = &[
    f("action", "Action", Str),
    f("onExitCodes", "OnExitCodes", Opt(&Struct(POD_FAILURE_POLICY_ON_EXIT_CODES_REQUIREMENT))),
    f(
        "onPodConditions",
        "OnPodConditions",
        List(&Struct(POD_FAILURE_POLICY_ON_POD_CONDITIONS_PATTERN)),
    ),
];

pub(crate) const POD_IP: &[Field] = &[f("ip", "IP", Str)];

pub(crate) const POD_OS: &[Field] = &[f("name", "Name", Str)];

pub(crate) const POD_READINESS_GATE: &[Field] = &[f("conditionType", "ConditionType", Str)];

pub(crate) const POD_RESOURCE_CLAIM: &[Field] = &[
    f("name", "Name", Str),
    f("resourceClaimName", "ResourceClaimName", Opt(&Str)),
    f("resourceClaimTemplateName", "ResourceClaimTemplateName", Opt(&Str)),
];

pub(crate) const POD_SCHEDULING_GATE: &[Field] = &[f("name", "Name", Str)];

pub(crate) const POD_SCHEDULING_GROUP: &[Field] = &[f("podGroupName", "PodGroupName", Opt(&Str))];

pub(crate) const POD_SECURITY_CONTEXT: &[Field] = &[
    f("hostNetwork", "HostNetwork", Bool),
    f("hostPID", "HostPID", Bool),
    f("hostIPC", "HostIPC", Bool),
    f("shareProcessNamespace", "ShareProcessNamespace", Opt(&Bool)),
    f("hostUsers", "HostUsers", Opt(&Bool)),
    f("seLinuxOptions", "SELinuxOptions", Opt(&Struct(SE_LINUX_OPTIONS))),
    f("windowsOptions", "WindowsOptions", Opt(&Struct(WINDOWS_SECURITY_CONTEXT_OPTIONS))),
    f("runAsUser", "RunAsUser", Opt(&Int)),
    f("runAsGroup", "RunAsGroup", Opt(&Int)),
    f("runAsNonRoot", "RunAsNonRoot", Opt(&Bool)),
    f("supplementalGroups", "SupplementalGroups", List(&Int)),
    f("supplementalGroupsPolicy", "SupplementalGroupsPolicy", Opt(&Str)),
    f("fsGroup", "FSGroup", Opt(&Int)),
    f("fsGroupChangePolicy", "FSGroupChangePolicy", Opt(&Str)),
    f("sysctls", "Sysctls", List(&Struct(SYSCTL))),
    f("seccompProfile", "SeccompProfile", Opt(&Struct(SECCOMP_PROFILE))),
    f("appArmorProfile", "AppArmorProfile", Opt(&Struct(APP_ARMOR_PROFILE))),
    f("seLinuxChangePolicy", "SELinuxChangePolicy", Opt(&Str)),
];

pub(crate) const POD_SPEC: &[Field] = &[
    f("volumes", "Volumes", List(&Struct(VOLUME))),
    f("initContainers", "InitContainers", List(&Struct(CONTAINER))),
    f("containers", "Containers", List(&Struct(CONTAINER))),
    f("ephemeralContainers", "EphemeralContainers", List(&Struct(EPHEMERAL_CONTAINER))),
    f("restartPolicy", "RestartPolicy", Str),
    f("terminationGracePeriodSeconds", "TerminationGracePeriodSeconds", Opt(&Int)),
    f("activeDeadlineSeconds", "ActiveDeadlineSeconds", Opt(&Int)),
    f("dnsPolicy", "DNSPolicy", Str),
    f("nodeSelector", "NodeSelector", Map(&Str)),
    f("serviceAccountName", "ServiceAccountName", Str),
    f("automountServiceAccountToken", "AutomountServiceAccountToken", Opt(&Bool)),
    f("nodeName", "NodeName", Str),
    f("securityContext", "SecurityContext", Opt(&Struct(POD_SECURITY_CONTEXT))),
    f("imagePullSecrets", "ImagePullSecrets", List(&Struct(LOCAL_OBJECT_REFERENCE))),
    f("hostname", "Hostname", Str),
    f("subdomain", "Subdomain", Str),
    f("setHostnameAsFQDN", "SetHostnameAsFQDN", Opt(&Bool)),
    f("affinity", "Affinity", Opt(&Struct(AFFINITY))),
    f("schedulerName", "SchedulerName", Str),
    f("tolerations", "Tolerations", List(&Struct(TOLERATION))),
    f("hostAliases", "HostAliases", List(&Struct(HOST_ALIAS))),
    f("priorityClassName", "PriorityClassName", Str),
    f("priority", "Priority", Opt(&Int)),
    f("preemptionPolicy", "PreemptionPolicy", Opt(&Str)),
    f("dnsConfig", "DNSConfig", Opt(&Struct(POD_DNS_CONFIG))),
    f("readinessGates", "ReadinessGates", List(&Struct(POD_READINESS_GATE))),
    f("runtimeClassName", "RuntimeClassName", Opt(&Str)),
    f("overhead", "Overhead", Map(&Quantity)),
    f("enableServiceLinks", "EnableServiceLinks", Opt(&Bool)),
    f(
        "topologySpreadConstraints",
        "TopologySpreadConstraints",
        List(&Struct(TOPOLOGY_SPREAD_CONSTRAINT)),
    ),
    f("os", "OS", Opt(&Struct(POD_OS))),
    f("schedulingGates", "SchedulingGates", List(&Struct(POD_SCHEDULING_GATE))),
    f("resourceClaims", "ResourceClaims", List(&Struct(POD_RESOURCE_CLAIM))),
    f("resources", "Resources", Opt(&Struct(RESOURCE_REQUIREMENTS))),
    f("hostnameOverride", "HostnameOverride", Opt(&Str)),
    f("schedulingGroup", "SchedulingGroup", Opt(&Struct(POD_SCHEDULING_GROUP))),
];

pub(crate) const POD_TEMPLATE_SPEC: &[Field] =
    &[f("metadata", "ObjectMeta", Inline(OBJECT_META)), f("spec", "Spec", Struct(POD_SPEC))];

pub(crate) const POLICY_RULES_WITH_SUBJECTS: &[Field] = &[
    f("subjects", "Subjects", List(&Struct(SUBJECT))),
    f("resourceRules", "ResourceRules", List(&Struct(RESOURCE_POLICY_RULE))),
    f("nonResourceRules", "NonResourceRules", List(&Struct(NON_RESOURCE_POLICY_RULE))),
];

pub(crate) const PORTWORX_VOLUME_SOURCE: &[Field] =
    &[f("volumeID", "VolumeID", Str), f("fsType", "FSType", Str), f("readOnly", "ReadOnly", Bool)];

pub(crate) const PREFERRED_SCHEDULING_TERM: &[Field] =
    &[f("weight", "Weight", Int), f("preference", "Preference", Struct(NODE_SELECTOR_TERM))];

pub(crate) const PRIORITY_LEVEL_CONFIGURATION_REFERENCE: &[Field] = &[f("name", "Name", Str)];

pub(crate) const PRIORITY_LEVEL_CONFIGURATION_SPEC: &[Field] = &[
    f("type", "Type", Str),
    f("limited", "Limited", Opt(&Struct(LIMITED_PRIORITY_LEVEL_CONFIGURATION))),
    f("exempt", "Exempt", Opt(&Struct(EXEMPT_PRIORITY_LEVEL_CONFIGURATION))),
];

pub(crate) const PROBE: &[Field] = &[
    f("exec", "Exec", Opt(&Struct(EXEC_ACTION))),
    f("httpGet", "HTTPGet", Opt(&Struct(HTTP_GET_ACTION))),
    f("tcpSocket", "TCPSocket", Opt(&Struct(TCP_SOCKET_ACTION))),
    f("grpc", "GRPC", Opt(&Struct(GRPC_ACTION))),
    f("initialDelaySeconds", "InitialDelaySeconds", Int),
    f("timeoutSeconds", "TimeoutSeconds", Int),
    f("periodSeconds", "PeriodSeconds", Int),
    f("successThreshold", "SuccessThreshold", Int),
    f("failureThreshold", "FailureThreshold", Int),
    f("terminationGracePeriodSeconds", "TerminationGracePeriodSeconds", Opt(&Int)),
];

pub(crate) const PROJECTED_VOLUME_SOURCE: &[Field] = &[
    f("sources", "Sources", List(&Struct(VOLUME_PROJECTION))),
    f("defaultMode", "DefaultMode", Opt(&Int)),
];

pub(crate) const QUEUING_CONFIGURATION: &[Field] = &[
    f("queues", "Queues", Int),
    f("handSize", "HandSize", Int),
    f("queueLengthLimit", "QueueLengthLimit", Int),
];

pub(crate) const QUOBYTE_VOLUME_SOURCE: &[Field] = &[
    f("registry", "Registry", Str),
    f("volume", "Volume", Str),
    f("readOnly", "ReadOnly", Bool),
    f("user", "User", Str),
    f("group", "Group", Str),
    f("tenant", "Tenant", Str),
];

pub(crate) const RBD_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    f("monitors", "CephMonitors", List(&Str)),
    f("image", "RBDImage", Str),
    f("fsType", "FSType", Str),
    f("pool", "RBDPool", Str),
    f("user", "RadosUser", Str),
    f("keyring", "Keyring", Str),
    f("secretRef", "SecretRef", Opt(&Struct(SECRET_REFERENCE))),
    f("readOnly", "ReadOnly", Bool),
];

pub(crate) const RBD_VOLUME_SOURCE: &[Field] = &[
    f("monitors", "CephMonitors", List(&Str)),
    f("image", "RBDImage", Str),
    f("fsType", "FSType", Str),
    f("pool", "RBDPool", Str),
    f("user", "RadosUser", Str),
    f("keyring", "Keyring", Str),
    f("secretRef", "SecretRef", Opt(&Struct(LOCAL_OBJECT_REFERENCE))),
    f("readOnly", "ReadOnly", Bool),
];

pub(crate) const RESOURCE_CLAIM: &[Field] = &[f("name", "Name", Str), f("request", "Request", Str)];

pub(crate) const RESOURCE_CLAIM_SPEC: &[Field] = &[f("devices", "Devices", Struct(DEVICE_CLAIM))];

pub(crate) const RESOURCE_CLAIM_TEMPLATE_SPEC: &[Field] = &[
    f("metadata", "ObjectMeta", Inline(OBJECT_META)),
    f("spec", "Spec", Struct(RESOURCE_CLAIM_SPEC)),
];

pub(crate) const RESOURCE_FIELD_SELECTOR: &[Field] = &[
    f("containerName", "ContainerName", Str),
    f("resource", "Resource", Str),
    f("divisor", "Divisor", Quantity),
];

pub(crate) const RESOURCE_POLICY_RULE: &[Field] = &[
    f("verbs", "Verbs", List(&Str)),
    f("apiGroups", "APIGroups", List(&Str)),
    f("resources", "Resources", List(&Str)),
    f("clusterScope", "ClusterScope", Bool),
    f("namespaces", "Namespaces", List(&Str)),
];

pub(crate) const RESOURCE_REQUIREMENTS: &[Field] = &[
    f("limits", "Limits", Map(&Quantity)),
    f("requests", "Requests", Map(&Quantity)),
    f("claims", "Claims", List(&Struct(RESOURCE_CLAIM))),
];

pub(crate) const ROLE_REF: &[Field] =
    &[f("apiGroup", "APIGroup", Str), f("kind", "Kind", Str), f("name", "Name", Str)];

pub(crate) const ROLLING_UPDATE_DAEMON_SET: &[Field] =
    &[f("maxUnavailable", "MaxUnavailable", IntOrString), f("maxSurge", "MaxSurge", IntOrString)];

pub(crate) const ROLLING_UPDATE_DEPLOYMENT: &[Field] =
    &[f("maxUnavailable", "MaxUnavailable", IntOrString), f("maxSurge", "MaxSurge", IntOrString)];

pub(crate) const ROLLING_UPDATE_STATEFUL_SET_STRATEGY: &[Field] =
    &[f("partition", "Partition", Int), f("maxUnavailable", "MaxUnavailable", Opt(&IntOrString))];

pub(crate) const SCALE_IO_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    f("gateway", "Gateway", Str),
    f("system", "System", Str),
    f("secretRef", "SecretRef", Opt(&Struct(SECRET_REFERENCE))),
    f("sslEnabled", "SSLEnabled", Bool),
    f("protectionDomain", "ProtectionDomain", Str),
    f("storagePool", "StoragePool", Str),
    f("storageMode", "StorageMode", Str),
    f("volumeName", "VolumeName", Str),
    f("fsType", "FSType", Str),
    f("readOnly", "ReadOnly", Bool),
];

pub(crate) const SCALE_IO_VOLUME_SOURCE: &[Field] = &[
    f("gateway", "Gateway", Str),
    f("system", "System", Str),
    f("secretRef", "SecretRef", Opt(&Struct(LOCAL_OBJECT_REFERENCE))),
    f("sslEnabled", "SSLEnabled", Bool),
    f("protectionDomain", "ProtectionDomain", Str),
    f("storagePool", "StoragePool", Str),
    f("storageMode", "StorageMode", Str),
    f("volumeName", "VolumeName", Str),
    f("fsType", "FSType", Str),
    f("readOnly", "ReadOnly", Bool),
];

pub(crate) const SCOPED_RESOURCE_SELECTOR_REQUIREMENT: &[Field] = &[
    f("scopeName", "ScopeName", Str),
    f("operator", "Operator", Str),
    f("values", "Values", List(&Str)),
];

pub(crate) const SCOPE_SELECTOR: &[Field] = &[f(
    "matchExpressions",
    "MatchExpressions",
    List(&Struct(SCOPED_RESOURCE_SELECTOR_REQUIREMENT)),
)];

pub(crate) const SECCOMP_PROFILE: &[Field] =
    &[f("type", "Type", Str), f("localhostProfile", "LocalhostProfile", Opt(&Str))];

pub(crate) const SECRET_ENV_SOURCE: &[Field] =
    &[f("name", "Name", Str), f("optional", "Optional", Opt(&Bool))];

pub(crate) const SECRET_KEY_SELECTOR: &[Field] =
    &[f("name", "Name", Str), f("key", "Key", Str), f("optional", "Optional", Opt(&Bool))];

pub(crate) const SECRET_PROJECTION: &[Field] = &[
    f("name", "Name", Str),
    f("items", "Items", List(&Struct(KEY_TO_PATH))),
    f("optional", "Optional", Opt(&Bool)),
];

pub(crate) const SECRET_REFERENCE: &[Field] =
    &[f("name", "Name", Str), f("namespace", "Namespace", Str)];

pub(crate) const SECRET_VOLUME_SOURCE: &[Field] = &[
    f("secretName", "SecretName", Str),
    f("items", "Items", List(&Struct(KEY_TO_PATH))),
    f("defaultMode", "DefaultMode", Opt(&Int)),
    f("optional", "Optional", Opt(&Bool)),
];

pub(crate) const SECURITY_CONTEXT: &[Field] = &[
    f("capabilities", "Capabilities", Opt(&Struct(CAPABILITIES))),
    f("privileged", "Privileged", Opt(&Bool)),
    f("seLinuxOptions", "SELinuxOptions", Opt(&Struct(SE_LINUX_OPTIONS))),
    f("windowsOptions", "WindowsOptions", Opt(&Struct(WINDOWS_SECURITY_CONTEXT_OPTIONS))),
    f("runAsUser", "RunAsUser", Opt(&Int)),
    f("runAsGroup", "RunAsGroup", Opt(&Int)),
    f("runAsNonRoot", "RunAsNonRoot", Opt(&Bool)),
    f("readOnlyRootFilesystem", "ReadOnlyRootFilesystem", Opt(&Bool)),
    f("allowPrivilegeEscalation", "AllowPrivilegeEscalation", Opt(&Bool)),
    f("procMount", "ProcMount", Opt(&Str)),
    f("seccompProfile", "SeccompProfile", Opt(&Struct(SECCOMP_PROFILE))),
    f("appArmorProfile", "AppArmorProfile", Opt(&Struct(APP_ARMOR_PROFILE))),
];

pub(crate) const SERVICE_ACCOUNT_SUBJECT: &[Field] =
    &[f("namespace", "Namespace", Str), f("name", "Name", Str)];

pub(crate) const SERVICE_ACCOUNT_TOKEN_PROJECTION: &[Field] = &[
    f("audience", "Audience", Str),
    f("expirationSeconds", "ExpirationSeconds", Int),
    f("path", "Path", Str),
];

pub(crate) const SERVICE_CIDR_SPEC: &[Field] = &[f("cidrs", "CIDRs", List(&Str))];

pub(crate) const SERVICE_PORT: &[Field] = &[
    f("name", "Name", Str),
    f("protocol", "Protocol", Str),
    f("appProtocol", "AppProtocol", Opt(&Str)),
    f("port", "Port", Int),
    f("targetPort", "TargetPort", IntOrString),
    f("nodePort", "NodePort", Int),
];

pub(crate) const SE_LINUX_OPTIONS: &[Field] = &[
    f("user", "User", Str),
    f("role", "Role", Str),
    f("type", "Type", Str),
    f("level", "Level", Str),
];

pub(crate) const SLEEP_ACTION: &[Field] = &[f("seconds", "Seconds", Int)];

pub(crate) const STATEFUL_SET_UPDATE_STRATEGY: &[Field] = &[
    f("type", "Type", Str),
    f("rollingUpdate", "RollingUpdate", Opt(&Struct(ROLLING_UPDATE_STATEFUL_SET_STRATEGY))),
];

pub(crate) const STORAGE_OS_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    f("volumeName", "VolumeName", Str),
    f("volumeNamespace", "VolumeNamespace", Str),
    f("fsType", "FSType", Str),
    f("readOnly", "ReadOnly", Bool),
    f("secretRef", "SecretRef", Opt(&Struct(OBJECT_REFERENCE))),
];

pub(crate) const STORAGE_OS_VOLUME_SOURCE: &[Field] = &[
    f("volumeName", "VolumeName", Str),
    f("volumeNamespace", "VolumeNamespace", Str),
    f("fsType", "FSType", Str),
    f("readOnly", "ReadOnly", Bool),
    f("secretRef", "SecretRef", Opt(&Struct(LOCAL_OBJECT_REFERENCE))),
];

pub(crate) const STORAGE_VERSION_MIGRATION_SPEC: &[Field] =
    &[f("resource", "Resource", Struct(GROUP_RESOURCE))];

pub(crate) const SUBJECT: &[Field] = &[
    f("kind", "Kind", Str),
    f("user", "User", Opt(&Struct(USER_SUBJECT))),
    f("group", "Group", Opt(&Struct(GROUP_SUBJECT))),
    f("serviceAccount", "ServiceAccount", Opt(&Struct(SERVICE_ACCOUNT_SUBJECT))),
];

pub(crate) const SUCCESS_POLICY: &[Field] =
    &[f("rules", "Rules", List(&Struct(SUCCESS_POLICY_RULE)))];

pub(crate) const SUCCESS_POLICY_RULE: &[Field] = &[
    f("succeededIndexes", "SucceededIndexes", Opt(&Str)),
    f("succeededCount", "SucceededCount", Opt(&Int)),
];

pub(crate) const SYSCTL: &[Field] = &[f("name", "Name", Str), f("value", "Value", Str)];

pub(crate) const TAINT: &[Field] = &[
    f("key", "Key", Str),
    f("value", "Value", Str),
    f("effect", "Effect", Str),
    f("timeAdded", "TimeAdded", Opt(&Time)),
];

pub(crate) const TCP_SOCKET_ACTION: &[Field] =
    &[f("port", "Port", IntOrString), f("host", "Host", Str)];

pub(crate) const TOLERATION: &[Field] = &[
    f("key", "Key", Str),
    f("operator", "Operator", Str),
    f("value", "Value", Str),
    f("effect", "Effect", Str),
    f("tolerationSeconds", "TolerationSeconds", Opt(&Int)),
];

pub(crate) const TOPOLOGY_SPREAD_CONSTRAINT: &[Field] = &[
    f("maxSkew", "MaxSkew", Int),
    f("topologyKey", "TopologyKey", Str),
    f("whenUnsatisfiable", "WhenUnsatisfiable", Str),
    f("labelSelector", "LabelSelector", Opt(&Struct(LABEL_SELECTOR))),
    f("minDomains", "MinDomains", Opt(&Int)),
    f("nodeAffinityPolicy", "NodeAffinityPolicy", Opt(&Str)),
    f("nodeTaintsPolicy", "NodeTaintsPolicy", Opt(&Str)),
    f("matchLabelKeys", "MatchLabelKeys", List(&Str)),
];

pub(crate) const TYPED_LOCAL_OBJECT_REFERENCE: &[Field] =
    &[f("apiGroup", "APIGroup", Opt(&Str)), f("kind", "Kind", Str), f("name", "Name", Str)];

pub(crate) const TYPED_OBJECT_REFERENCE: &[Field] = &[
    f("apiGroup", "APIGroup", Opt(&Str)),
    f("kind", "Kind", Str),
    f("name", "Name", Str),
    f("namespace", "Namespace", Opt(&Str)),
];

pub(crate) const UNCOUNTED_TERMINATED_PODS: &[Field] =
    &[f("succeeded", "Succeeded", List(&Str)), f("failed", "Failed", List(&Str))];

pub(crate) const USER_SUBJECT: &[Field] = &[f("name", "Name", Str)];

pub(crate) const VOLUME: &[Field] = &[
    f("name", "Name", Str),
    f("hostPath", "HostPath", Opt(&Struct(HOST_PATH_VOLUME_SOURCE))),
    f("emptyDir", "EmptyDir", Opt(&Struct(EMPTY_DIR_VOLUME_SOURCE))),
    f("gcePersistentDisk", "GCEPersistentDisk", Opt(&Struct(GCE_PERSISTENT_DISK_VOLUME_SOURCE))),
    f(
        "awsElasticBlockStore",
        "AWSElasticBlockStore",
        Opt(&Struct(AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)),
    ),
    f("gitRepo", "GitRepo", Opt(&Struct(GIT_REPO_VOLUME_SOURCE))),
    f("secret", "Secret", Opt(&Struct(SECRET_VOLUME_SOURCE))),
    f("nfs", "NFS", Opt(&Struct(NFS_VOLUME_SOURCE))),
    f("iscsi", "ISCSI", Opt(&Struct(ISCSI_VOLUME_SOURCE))),
    f("glusterfs", "Glusterfs", Opt(&Struct(GLUSTERFS_VOLUME_SOURCE))),
    f(
        "persistentVolumeClaim",
        "PersistentVolumeClaim",
        Opt(&Struct(PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)),
    ),
    f("rbd", "RBD", Opt(&Struct(RBD_VOLUME_SOURCE))),
    f("quobyte", "Quobyte", Opt(&Struct(QUOBYTE_VOLUME_SOURCE))),
    f("flexVolume", "FlexVolume", Opt(&Struct(FLEX_VOLUME_SOURCE))),
    f("cinder", "Cinder", Opt(&Struct(CINDER_VOLUME_SOURCE))),
    f("cephfs", "CephFS", Opt(&Struct(CEPH_FS_VOLUME_SOURCE))),
    f("flocker", "Flocker", Opt(&Struct(FLOCKER_VOLUME_SOURCE))),
    f("downwardAPI", "DownwardAPI", Opt(&Struct(DOWNWARD_API_VOLUME_SOURCE))),
    f("fc", "FC", Opt(&Struct(FC_VOLUME_SOURCE))),
    f("azureFile", "AzureFile", Opt(&Struct(AZURE_FILE_VOLUME_SOURCE))),
    f("configMap", "ConfigMap", Opt(&Struct(CONFIG_MAP_VOLUME_SOURCE))),
    f("vsphereVolume", "VsphereVolume", Opt(&Struct(VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE))),
    f("azureDisk", "AzureDisk", Opt(&Struct(AZURE_DISK_VOLUME_SOURCE))),
    f(
        "photonPersistentDisk",
        "PhotonPersistentDisk",
        Opt(&Struct(PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)),
    ),
    f("projected", "Projected", Opt(&Struct(PROJECTED_VOLUME_SOURCE))),
    f("portworxVolume", "PortworxVolume", Opt(&Struct(PORTWORX_VOLUME_SOURCE))),
    f("scaleIO", "ScaleIO", Opt(&Struct(SCALE_IO_VOLUME_SOURCE))),
    f("storageos", "StorageOS", Opt(&Struct(STORAGE_OS_VOLUME_SOURCE))),
    f("csi", "CSI", Opt(&Struct(CSI_VOLUME_SOURCE))),
    f("ephemeral", "Ephemeral", Opt(&Struct(EPHEMERAL_VOLUME_SOURCE))),
    f("image", "Image", Opt(&Struct(IMAGE_VOLUME_SOURCE))),
];

pub(crate) const VOLUME_ATTACHMENT_SOURCE: &[Field] = &[
    f("persistentVolumeName", "PersistentVolumeName", Opt(&Str)),
    f("inlineVolumeSpec", "InlineVolumeSpec", Opt(&Struct(PERSISTENT_VOLUME_SPEC))),
];

pub(crate) const VOLUME_ATTACHMENT_SPEC: &[Field] = &[
    f("attacher", "Attacher", Str),
    f("source", "Source", Struct(VOLUME_ATTACHMENT_SOURCE)),
    f("nodeName", "NodeName", Str),
];

pub(crate) const VOLUME_DEVICE: &[Field] =
    &[f("name", "Name", Str), f("devicePath", "DevicePath", Str)];

pub(crate) const VOLUME_MOUNT: &[Field] = &[
    f("name", "Name", Str),
    f("readOnly", "ReadOnly", Bool),
    f("recursiveReadOnly", "RecursiveReadOnly", Opt(&Str)),
    f("mountPath", "MountPath", Str),
    f("subPath", "SubPath", Str),
    f("mountPropagation", "MountPropagation", Opt(&Str)),
    f("subPathExpr", "SubPathExpr", Str),
];

pub(crate) const VOLUME_NODE_AFFINITY: &[Field] =
    &[f("required", "Required", Opt(&Struct(NODE_SELECTOR)))];

pub(crate) const VOLUME_NODE_RESOURCES: &[Field] = &[f("count", "Count", Opt(&Int))];

pub(crate) const VOLUME_PROJECTION: &[Field] = &[
    f("secret", "Secret", Opt(&Struct(SECRET_PROJECTION))),
    f("downwardAPI", "DownwardAPI", Opt(&Struct(DOWNWARD_API_PROJECTION))),
    f("configMap", "ConfigMap", Opt(&Struct(CONFIG_MAP_PROJECTION))),
    f("serviceAccountToken", "ServiceAccountToken", Opt(&Struct(SERVICE_ACCOUNT_TOKEN_PROJECTION))),
    f("clusterTrustBundle", "ClusterTrustBundle", Opt(&Struct(CLUSTER_TRUST_BUNDLE_PROJECTION))),
    f("podCertificate", "PodCertificate", Opt(&Struct(POD_CERTIFICATE_PROJECTION))),
];

pub(crate) const VOLUME_RESOURCE_REQUIREMENTS: &[Field] =
    &[f("limits", "Limits", Map(&Quantity)), f("requests", "Requests", Map(&Quantity))];

pub(crate) const VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE: &[Field] = &[
    f("volumePath", "VolumePath", Str),
    f("fsType", "FSType", Str),
    f("storagePolicyName", "StoragePolicyName", Str),
    f("storagePolicyID", "StoragePolicyID", Str),
];

pub(crate) const WEIGHTED_POD_AFFINITY_TERM: &[Field] = &[
    f("weight", "Weight", Int),
    f("podAffinityTerm", "PodAffinityTerm", Struct(POD_AFFINITY_TERM)),
];

pub(crate) const WINDOWS_SECURITY_CONTEXT_OPTIONS: &[Field] = &[
    f("gmsaCredentialSpecName", "GMSACredentialSpecName", Opt(&Str)),
    f("gmsaCredentialSpec", "GMSACredentialSpec", Opt(&Str)),
    f("runAsUserName", "RunAsUserName", Opt(&Str)),
    f("hostProcess", "HostProcess", Opt(&Bool)),
];
