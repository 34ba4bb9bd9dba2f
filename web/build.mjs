// Bundles the page into dist/: one script, one style sheet, one document. The program carries them inside.
import {build} from 'esbuild';
import {copyFileSync, mkdirSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, 'dist');
mkdirSync(out, {recursive: true});
await build({
  entryPoints: [join(here, 'src/app.ts'), join(here, 'src/app.css')],
  bundle: true,
  minify: true,
  target: 'es2022',
  format: 'iife',
  outdir: out,
  logLevel: 'warning',
});
copyFileSync(join(here, 'src/index.html'), join(out, 'index.html'));
copyFileSync(join(here, 'src/login.html'), join(out, 'login.html'));
