//! Other kinds of file that the kubelet knows: their fields decide which error comes first.

use keyward_protocol::Node;

/// For a file of another kind that the reference knows: whether it has a field that its kind does
/// not have. Then the reference reports the field first, as with a duplicate field.
pub(super) fn has_unknown_field(kind: &str, version: &str, root: &Node) -> Option<bool> {
    const PROVIDER: &str = "credentialprovider.kubelet.k8s.io/";
    let provider = version.strip_prefix(PROVIDER);
    let provider = provider.is_some_and(|v| matches!(v, "v1" | "v1beta1" | "v1alpha1"));
    let pulls = version.strip_prefix("kubelet.config.k8s.io/");
    let pulls = pulls.is_some_and(|v| matches!(v, "v1beta1" | "v1alpha1"));
    let provider_internal = version == "credentialprovider.kubelet.k8s.io/__internal";
    let internal = version == "kubelet.config.k8s.io/__internal";
    // Without a valid version the reference does not look at the fields.
    if version.ends_with('/') || version.is_empty() || version.matches('/').count() > 1 {
        return None;
    }
    let known: &[&str] = match kind {
        "Status" => &["metadata", "status", "message", "reason", "details", "code"],
        "APIVersions" => &["versions", "serverAddressByClientCIDRs"],
        "APIGroup" => &["name", "versions", "preferredVersion", "serverAddressByClientCIDRs"],
        "APIGroupList" => &["groups"],
        "APIResourceList" => &["groupVersion", "resources"],
        // This type has neither kind nor version.
        "WatchEvent" if provider => return Some(true),
        "CredentialProviderResponse" if provider => &["cacheKeyType", "cacheDuration", "auth"],
        "CredentialProviderRequest" if provider => {
            &["image", "serviceAccountToken", "serviceAccountAnnotations"]
        }
        "SerializedNodeConfigSource" if version == "kubelet.config.k8s.io/v1beta1" => &["source"],
        "ImagePullIntent" if pulls => &["image"],
        "ImagePulledRecord" if pulls => &["lastUpdatedTime", "imageRef", "credentialMapping"],
        // In the kubelet's internal versions, fields have the names of Go's.
        "CredentialProviderResponse" if provider_internal => {
            &["CacheKeyType", "CacheDuration", "Auth"]
        }
        "CredentialProviderRequest" if provider_internal => {
            &["Image", "ServiceAccountToken", "ServiceAccountAnnotations"]
        }
        "SerializedNodeConfigSource" if internal => &["Source"],
        "ImagePullIntent" if internal => &["Image"],
        "ImagePulledRecord" if internal => &["LastUpdatedTime", "ImageRef", "CredentialMapping"],
        "KubeletConfiguration" if version == "kubelet.config.k8s.io/v1beta1" => {
            return Some(has_other(root, |name| word(KUBELET, name)));
        }
        "KubeletConfiguration" if internal => {
            return Some(has_other(root, |name| word(KUBELET_INTERNAL, name)));
        }
        _ => return None,
    };
    Some(has_other(root, |name| known.contains(&name)))
}

/// Whether an object has an unknown field, besides `kind` and `apiVersion`.
fn has_other(root: &Node, known: impl Fn(&str) -> bool) -> bool {
    let is_other = |name: &str| !matches!(name, "apiVersion" | "kind") && !known(name);
    root.entries().iter().any(|entry| is_other(&entry.key))
}

/// Whether a name is one of the words of a text.
fn word(text: &str, name: &str) -> bool {
    text.split(' ').any(|word| word == name)
}

/// The fields of a `KubeletConfiguration` in files, as of Kubernetes 1.36.
const KUBELET: &str = "\
    address allowedUnsafeSysctls authentication authorization cgroupDriver cgroupRoot \
    cgroupsPerQOS clusterDNS clusterDomain configMapAndSecretChangeDetectionStrategy \
    containerLogMaxFiles containerLogMaxSize containerLogMaxWorkers containerLogMonitorInterval \
    containerRuntimeEndpoint contentType cpuCFSQuota cpuCFSQuotaPeriod cpuManagerPolicy \
    cpuManagerPolicyOptions cpuManagerReconcilePeriod crashLoopBackOff enableContentionProfiling \
    enableControllerAttachDetach enableDebugFlagsHandler enableDebuggingHandlers \
    enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery \
    enforceNodeAllocatable eventBurst eventRecordQPS evictionHard evictionMaxPodGracePeriod \
    evictionMinimumReclaim evictionPressureTransitionPeriod evictionSoft evictionSoftGracePeriod \
    failCgroupV1 failSwapOn featureGates fileCheckFrequency hairpinMode healthzBindAddress \
    healthzPort httpCheckFrequency imageGCHighThresholdPercent imageGCLowThresholdPercent \
    imageMaximumGCAge imageMinimumGCAge imagePullCredentialsVerificationPolicy \
    imageServiceEndpoint iptablesDropBit iptablesMasqueradeBit kernelMemcgNotification \
    kubeAPIBurst kubeAPIQPS kubeReserved kubeReservedCgroup kubeletCgroups \
    localStorageCapacityIsolation logging makeIPTablesUtilChains maxOpenFiles \
    maxParallelImagePulls maxPods memoryManagerPolicy memoryReservationPolicy memorySwap \
    memoryThrottlingFactor mergeDefaultEvictionSettings nodeLeaseDurationSeconds \
    nodeStatusMaxImages nodeStatusReportFrequency nodeStatusUpdateFrequency oomScoreAdj podCIDR \
    podLogsDir podPidsLimit podsPerCore port preloadedImagesVerificationAllowlist \
    protectKernelDefaults providerID qosReserved readOnlyPort registerNode registerWithTaints \
    registryBurst registryPullQPS reservedMemory reservedSystemCPUs resolvConf \
    rotateCertificates runOnce runtimeRequestTimeout seccompDefault serializeImagePulls \
    serverTLSBootstrap showHiddenMetricsForVersion shutdownGracePeriod \
    shutdownGracePeriodByPodPriority shutdownGracePeriodCriticalPods singleProcessOOMKill \
    staticPodPath staticPodURL staticPodURLHeader streamingConnectionIdleTimeout syncFrequency \
    systemCgroups systemReserved systemReservedCgroup tlsCertFile tlsCipherSuites \
    tlsCurvePreferences tlsMinVersion tlsPrivateKeyFile topologyManagerPolicy \
    topologyManagerPolicyOptions topologyManagerScope tracing userNamespaces volumePluginDir \
    volumeStatsAggPeriod";

/// Fields of `KubeletConfiguration` in the version that the kubelet uses internally.
const KUBELET_INTERNAL: &str = "\
    Address AllowedUnsafeSysctls Authentication Authorization CPUCFSQuota CPUCFSQuotaPeriod \
    CPUManagerPolicy CPUManagerPolicyOptions CPUManagerReconcilePeriod CgroupDriver CgroupRoot \
    CgroupsPerQOS ClusterDNS ClusterDomain ConfigMapAndSecretChangeDetectionStrategy \
    ContainerLogMaxFiles ContainerLogMaxSize ContainerLogMaxWorkers ContainerLogMonitorInterval \
    ContainerRuntimeEndpoint ContentType CrashLoopBackOff EnableContentionProfiling \
    EnableControllerAttachDetach EnableDebugFlagsHandler EnableDebuggingHandlers \
    EnableProfilingHandler EnableServer EnableSystemLogHandler EnableSystemLogQuery \
    EnforceNodeAllocatable EventBurst EventRecordQPS EvictionHard EvictionMaxPodGracePeriod \
    EvictionMinimumReclaim EvictionPressureTransitionPeriod EvictionSoft EvictionSoftGracePeriod \
    FailCgroupV1 FailSwapOn FeatureGates FileCheckFrequency HTTPCheckFrequency HairpinMode \
    HealthzBindAddress HealthzPort IPTablesDropBit IPTablesMasqueradeBit \
    ImageGCHighThresholdPercent ImageGCLowThresholdPercent ImageMaximumGCAge ImageMinimumGCAge \
    ImagePullCredentialsVerificationPolicy ImageServiceEndpoint KernelMemcgNotification \
    KubeAPIBurst KubeAPIQPS KubeReserved KubeReservedCgroup KubeletCgroups \
    LocalStorageCapacityIsolation Logging MakeIPTablesUtilChains MaxOpenFiles \
    MaxParallelImagePulls MaxPods MemoryManagerPolicy MemoryReservationPolicy MemorySwap \
    MemoryThrottlingFactor MergeDefaultEvictionSettings NodeLeaseDurationSeconds \
    NodeStatusMaxImages NodeStatusReportFrequency NodeStatusUpdateFrequency OOMScoreAdj PodCIDR \
    PodLogsDir PodPidsLimit PodsPerCore Port PreloadedImagesVerificationAllowlist \
    ProtectKernelDefaults ProviderID QOSReserved ReadOnlyPort RegisterNode RegisterWithTaints \
    RegistryBurst RegistryPullQPS ReservedMemory ReservedSystemCPUs ResolverConfig \
    RotateCertificates RunOnce RuntimeRequestTimeout SeccompDefault SerializeImagePulls \
    ServerTLSBootstrap ShowHiddenMetricsForVersion ShutdownGracePeriod \
    ShutdownGracePeriodByPodPriority ShutdownGracePeriodCriticalPods SingleProcessOOMKill \
    StaticPodPath StaticPodURL StaticPodURLHeader StreamingConnectionIdleTimeout SyncFrequency \
    SystemCgroups SystemReserved SystemReservedCgroup TLSCertFile TLSCipherSuites \
    TLSCurvePreferences TLSMinVersion TLSPrivateKeyFile TopologyManagerPolicy \
    TopologyManagerPolicyOptions TopologyManagerScope Tracing UserNamespaces VolumePluginDir \
    VolumeStatsAggPeriod";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_field_is_told_from_one_of_the_kinds_own() {
        let other = |version: &str, name: &str| {
            let text = format!("kind: KubeletConfiguration\napiVersion: {version}\n{name}: 1\n");
            let (root, _) = Node::from_json_or_yaml_strictly(text.as_bytes()).unwrap();
            has_unknown_field("KubeletConfiguration", version, &root)
        };
        for (version, known) in [
            ("kubelet.config.k8s.io/v1beta1", "maxPods"),
            ("kubelet.config.k8s.io/__internal", "MaxPods"),
        ] {
            assert_eq!(other(version, known), Some(false), "{version} {known}");
            for name in ["n", "providers", "Maxpods", "maxPods maxPods"] {
                assert_eq!(other(version, name), Some(true), "{version} {name}");
            }
        }
        assert_eq!(other("kubelet.config.k8s.io/v1", "maxPods"), None);
    }
}
