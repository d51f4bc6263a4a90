//! The versions of a protocol.

/// Makes the `Version` of the protocol with this API group. The protocols have come the same way so
/// far, but a version of one says nothing about another: each has a type of its own.
macro_rules! versions {
    ($(#[$attribute:meta])* $group:literal) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Version {
            #[doc = concat!("`", $group, "/v1alpha1`")]
            V1Alpha1,
            #[doc = concat!("`", $group, "/v1beta1`")]
            V1Beta1,
            #[doc = concat!("`", $group, "/v1`")]
            V1,
        }

        impl Version {
            /// All of them, oldest first.
            pub const ALL: [Self; 3] = [Self::V1Alpha1, Self::V1Beta1, Self::V1];

            /// The `apiVersion` text.
            pub const fn api_version(self) -> &'static str {
                match self {
                    Self::V1Alpha1 => concat!($group, "/v1alpha1"),
                    Self::V1Beta1 => concat!($group, "/v1beta1"),
                    Self::V1 => concat!($group, "/v1"),
                }
            }

            /// The version without the group, such as `v1`.
            pub const fn name(self) -> &'static str {
                match self {
                    Self::V1Alpha1 => "v1alpha1",
                    Self::V1Beta1 => "v1beta1",
                    Self::V1 => "v1",
                }
            }

            /// The version with exactly this `apiVersion` text.
            pub fn parse(api_version: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|v| v.api_version() == api_version)
            }
        }
    };
}

pub(crate) use versions;
