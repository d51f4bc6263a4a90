// An OpenID Connect provider on loopback, with the people and programs of the test cluster.
//
//   node provider.mjs CERTIFICATE KEY
//
// Prints its issuer address once it listens. Whoever opens a login page there is logged in as `ann` at once:
// what is proven is the talk between a client, the provider and the API server, not a form.
import { createPrivateKey, generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'

import { Provider, errors } from 'oidc-provider'

const [certificate, key] = process.argv.slice(2)
const groups = { ann: ['readers', 'night-shift'] }
const password = 'correct horse'
// Read again before the export: Node 20 can lock up for ever if it collects a finished generation of keys while it exports
// the key that came from it.
const { privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
})
const signer = { ...createPrivateKey(privateKey).export({ format: 'jwk' }), alg: 'RS256', use: 'sig', kid: 'one' }

// The port is the system's choice and part of the issuer's name: listen first, then make the provider.
let provider
const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, (request, response) => {
  const [path, word, uid] = request.url.split('/')
  if (path === '' && word === 'interaction' && uid) {
    enter(request, response).catch((error) => response.writeHead(500).end(String(error)))
  } else {
    provider.callback()(request, response)
  }
})
server.listen(0, '127.0.0.1', () => {
  const issuer = `https://127.0.0.1:${server.address().port}`
  provider = new Provider(issuer, {
    clients: [{
      client_id: 'kubernetes',
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token', 'password'],
      redirect_uris: ['http://127.0.0.1'],
    }],
    claims: { openid: ['sub', 'groups'] },
    conformIdTokenClaims: false,
    features: { devInteractions: { enabled: false } },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, groups: groups[id] ?? [] }) }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    issueRefreshToken: () => true,
    jwks: { keys: [signer] },
    // Two clients share one refresh token where their results are compared.
    rotateRefreshToken: false,
    ttl: { IdToken: 600, AccessToken: 600, RefreshToken: 3600, Interaction: 60, Session: 60, Grant: 3600 },
  })
  provider.registerGrantType('password', byPassword, ['username', 'password', 'scope'], [])
  // The steps count these lines.
  provider.on('grant.success', (context) => console.log(`grant ${context.oidc.params.grant_type}`))
  provider.on('server_error', (_, error) => console.error(error))
  console.log(issuer)
})

// Login and consent in one step.
async function enter(request, response) {
  const { params } = await provider.interactionDetails(request, response)
  const grant = new provider.Grant({ accountId: 'ann', clientId: params.client_id })
  grant.addOIDCScope(params.scope)
  const grantId = await grant.save()
  await provider.interactionFinished(request, response, { login: { accountId: 'ann' }, consent: { grantId } })
}

async function byPassword(context) {
  const { client, params } = context.oidc
  if (!groups[params.username] || params.password !== password) {
    throw new errors.InvalidGrant('the name or the password is wrong')
  }
  const grant = new provider.Grant({ accountId: params.username, clientId: client.clientId })
  grant.addOIDCScope(params.scope)
  const shared = { client, accountId: params.username, grantId: await grant.save(), gty: 'password', scope: params.scope }
  const access = await new provider.AccessToken(shared).save()
  const refresh = await new provider.RefreshToken(shared).save()
  const account = { sub: params.username, groups: groups[params.username] }
  const token = new provider.IdToken(account, { ctx: context })
  token.scope = params.scope
  const idToken = await token.issue({ use: 'idtoken' })
  context.body = { access_token: access, refresh_token: refresh, id_token: idToken, token_type: 'Bearer', expires_in: 600, scope: params.scope }
}
