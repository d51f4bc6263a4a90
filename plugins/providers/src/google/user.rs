//! People: `authorized_user` and, of a workforce pool, `external_account_authorized_user`.

use keyward_plugin::Refusal;

use super::{
    Google, Token,
    info::Info,
    oauth::{Body, TOKEN, basic},
};

impl Google<'_> {
    /// What `gcloud auth application-default login` writes. Its scopes were chosen then.
    pub(super) fn authorized_user(&self, info: &Info) -> Result<Token, Refusal> {
        let url = info.text("token_uri").unwrap_or(TOKEN);
        self.check_address(info, "token_uri", url)?;
        let body = [
            ("grant_type", "refresh_token"),
            ("client_id", info.required("client_id")?),
            ("client_secret", info.required("client_secret")?),
            ("refresh_token", info.required("refresh_token")?),
        ];
        self.fetch(url, None, &Body::Form(&body))
    }

    /// What the same command writes for somebody of a workforce pool.
    pub(super) fn external_user(&self, info: &Info) -> Result<Token, Refusal> {
        let url = info.required("token_url")?;
        self.check_address(info, "token_url", url)?;
        let client = basic(info.required("client_id")?, info.required("client_secret")?);
        let body =
            [("grant_type", "refresh_token"), ("refresh_token", info.required("refresh_token")?)];
        self.fetch(url, Some(&client), &Body::Form(&body))
    }
}
